// The course of a disaggregated request, in order:
//   1. a decode instance (D) and a prefill instance (P) are picked;
//   2. P computes the prompt: the same request with one token, under an id that names both;
//   3. D gets the request itself, finds P by the id and receives the KV blocks;
//   4. D's answer goes to the client untouched;
//   5. an instance that fails is replaced: before the first byte by trying again, after it by letting another D continue
//      the stream where it broke.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { makeRequestId } from '../cluster/request-id.ts';
import { BadGatewayError, NotReadyError, type SvcError } from '../errors.ts';
import { toSvcError } from '../http/errors.ts';
import { ClientGoneError } from '../http/in-flight.ts';
import { Attempts } from './attempts.ts';
import type { CancelNotifier } from './cancel-notifier.ts';
import type { ClientRequest } from './client-request.ts';
import type { ProxyDeadlines } from './deadlines.ts';
import { BrokenStreamError } from './event-filter.ts';
import { type Instance, UpstreamFailure } from './instance.ts';
import { type InstanceKey, keyRefused } from './instance-key.ts';
import type { InstancePicker } from './instance-picker.ts';
import type { Phase, ProxyMetrics } from './metrics.ts';
import type { RecentTransfers } from './recent-transfers.ts';
import { Refusal } from './refusal.ts';
import { withFields } from './request-body.ts';
import { relayBytes, relayEvents } from './stream-relay.ts';
import { CONTENTS_HEADER, NO_ROOM, type ResponseHead, UpstreamRequest } from './upstream-request.ts';

interface ForwarderParts {
  readonly picker: InstancePicker;
  readonly metrics: ProxyMetrics;
  readonly cancels: CancelNotifier;
  readonly recent: RecentTransfers;
  readonly deadlines: ProxyDeadlines;
  readonly instanceKey: InstanceKey;
  readonly logger?: Logger | undefined;
}

type HeaderValue = ResponseHead['headers'][string];

/** An instance that writes a stream, and the contents of the model and the adapter that it writes it with. */
interface StreamWriter {
  readonly upstream: UpstreamRequest;
  readonly contents: HeaderValue;
}

/** Under which id D gets a request, and who has computed its prompt. */
interface Prefilled {
  readonly id: string;
  readonly prefill: Instance | null;
}

/** Prefill instances that are asked before D computes the prompt itself. */
const MAX_PREFILL_ATTEMPTS = 3;
/** Of decode instances, for one answer, while none of them gets anywhere. */
const MAX_DECODE_FAILURES = 8;
/** Seconds; the next heartbeats have come by then. */
const RETRY_AFTER = 3;
/** An instance that answers so is about to leave, or cannot serve. */
const LEAVING = 503;
/** It may be the fault of the request: only one more instance is asked. */
const FAULTS = new Set([500, 502]);

export class Forwarder {
  readonly #parts: ForwarderParts;

  constructor(parts: ForwarderParts) {
    this.#parts = parts;
  }

  async answer(request: ClientRequest): Promise<void> {
    const { endpoint, response, body, id } = request.options;
    if (body.isStream) response.breakSilence(this.#parts.deadlines.silence);
    try {
      while (!(await this.#attempt(request))) this.#parts.metrics.retries.inc({ leg: 'decode' });
    } catch (thrown) {
      if (thrown instanceof ClientGoneError) return;
      const error = toSvcError(thrown);
      if (error.status === 500) this.#parts.logger?.error({ err: thrown }, 'request failed');
      if (thrown instanceof CutOffError)
        this.#parts.logger?.warn({ id, why: thrown.why }, 'a stream was cut off');
      if (response.hasHead) request.progress.errorStatus = error.status;
      await response.fail(error, endpoint, request.progress.numEvents);
    } finally {
      this.#cancelTransfer(request);
    }
  }

  /** One attempt with one D; false where another one makes sense. */
  async #attempt(request: ClientRequest): Promise<boolean> {
    const { body, response } = request.options;
    const decode = await this.#pickDecode(request);
    if (decode === null) return this.#giveUp(request);
    const { id, prefill } = await this.#prefill(request, decode);
    if (!this.#maySend(request, decode)) return false;
    const upstream = this.#send(request, decode, 'decode', body.bytes, id);
    try {
      const head = await upstream.head;
      this.#parts.metrics.phaseTimes.observe({ leg: 'decode' }, secondsSince(upstream.openedAt));
      if (await this.#isRefused(request, upstream, head)) return false;
      if (this.#parts.instanceKey.isRefused(decode, head.status)) {
        upstream.cancel(new UpstreamFailure('the instance does not let the proxy in'));
        throw keyRefused(decode);
      }
      if (head.status === 200) this.#noteServed(request, prefill, decode);
      if (isEventStream(head)) await this.#stream(request, upstream, head);
      else await this.#sendWhole(request, head, await upstream.whole());
      return true;
    } catch (error) {
      if (!(error instanceof UpstreamFailure) || response.hasBegun) throw error;
      request.attempts.add(decode);
      this.#noteLoss(request, upstream);
      this.#cancelTransfer(request);
      return false;
    }
  }

  /** Where those that are left may only be busy, or have to outlive another one, their next heartbeats are waited for. */
  async #pickDecode(request: ClientRequest, like: Instance | null = null): Promise<Instance | null> {
    const { picker, deadlines } = this.#parts;
    while (request.attempts.numFailures < MAX_DECODE_FAILURES) {
      const decode = picker.pickDecode(request, like);
      if (decode !== null || !picker.mayComeBack(request, like)) return decode;
      await sleep(deadlines.pause);
      request.throwIfAborted();
    }
    return null;
  }

  /** No instance is left: the client gets the last refusal as it is, or is told to come again. */
  async #giveUp(request: ClientRequest): Promise<boolean> {
    if (request.refusal === null) throw noInstance();
    await this.#sendWhole(request, request.refusal.head, request.refusal.body);
    return true;
  }

  /** Lets a P compute the prompt, while D counts as having the request: all that come meanwhile would go to one D. */
  async #prefill(request: ClientRequest, decode: Instance): Promise<Prefilled> {
    decode.numExpected += 1;
    try {
      return await this.#prefillFor(request, decode);
    } finally {
      decode.numExpected -= 1;
    }
  }

  /** Where it is worth it; where no P can, D does it alone. */
  async #prefillFor(request: ClientRequest, decode: Instance): Promise<Prefilled> {
    const { picker, metrics } = this.#parts;
    const alone: Prefilled = { id: request.options.id, prefill: null };
    const attempts = new Attempts();
    while (attempts.numFailures < MAX_PREFILL_ATTEMPTS) {
      const prefill = picker.pickPrefill(request, decode, attempts);
      if (prefill === null || attempts.has(prefill)) break;
      if (attempts.numFailures > 0) metrics.retries.inc({ leg: 'prefill' });
      attempts.add(prefill);
      const id = makeRequestId(prefill.zmqAddress, decode.zmqAddress);
      request.transfer = { id, prefill, decode };
      const status = await this.#computePrompt(request, prefill, id);
      if (status === 200) {
        request.prefilledBy = prefill;
        return { id, prefill };
      }
      this.#cancelTransfer(request);
      // What P finds wrong with the request, D says in its own words.
      if (status !== null && status < 500 && status !== 429) break;
    }
    metrics.prefillSkips.inc();
    return alone;
  }

  /** Not where prefill instances have been lost to it meanwhile, and D has not been heard of since. */
  #maySend(request: ClientRequest, decode: Instance): boolean {
    if (request.losses.allow(decode)) return true;
    this.#cancelTransfer(request);
    return false;
  }

  /** The status of P, null where it gave none. */
  async #computePrompt(request: ClientRequest, prefill: Instance, id: string): Promise<number | null> {
    const { body } = request.options;
    const bytes = withFields(body.bytes, body.prefillFields ?? {});
    const upstream = this.#send(request, prefill, 'prefill', bytes, id);
    try {
      const { status } = await upstream.head;
      await upstream.whole();
      noteStatus(prefill, status);
      this.#parts.instanceKey.isRefused(prefill, status);
      this.#parts.metrics.phaseTimes.observe({ leg: 'prefill' }, secondsSince(upstream.openedAt));
      return status;
    } catch (error) {
      if (!(error instanceof UpstreamFailure)) throw error;
      this.#noteLoss(request, upstream);
      return null;
    }
  }

  /** @throws BadGatewayError where it is one loss too many. */
  #noteLoss({ losses, options: { id } }: ClientRequest, { wasSent, instance }: UpstreamRequest): void {
    if (wasSent) losses.add(instance);
    if (!losses.isFull) return;
    const { addresses } = losses;
    this.#parts.logger?.error(
      { id, instances: addresses },
      'these instances ended with a request: it is sent to no other',
    );
    throw new BadGatewayError(
      `${addresses.length} instances, one after the other, have ended or lost the connection with this request: it is sent to ` +
        'no other, since it may be what ends them; the log of the proxy names it',
    );
  }

  async #isRefused(request: ClientRequest, upstream: UpstreamRequest, head: ResponseHead): Promise<boolean> {
    const { status } = head;
    const isSecondFault = FAULTS.has(status) && FAULTS.has(request.refusal?.head.status ?? 0);
    noteStatus(upstream.instance, status);
    if (!(NO_ROOM.has(status) || FAULTS.has(status)) || isSecondFault) return false;
    request.refusal = { head, body: await upstream.whole() };
    request.attempts.exclude(upstream.instance);
    this.#cancelTransfer(request);
    return true;
  }

  async #sendWhole(request: ClientRequest, head: ResponseHead, body: Buffer): Promise<void> {
    const { response, endpoint } = request.options;
    if (response.isWaiting) {
      request.progress.errorStatus = head.status;
      return response.fail(new Refusal(head, body), endpoint, 0);
    }
    if (head.status === 200) request.transfer = null;
    this.#noteFirstByte(request);
    await response.send(head, body);
  }

  async #stream(request: ClientRequest, upstream: UpstreamRequest, head: ResponseHead): Promise<void> {
    const { response } = request.options;
    response.begin(head);
    let writer: StreamWriter = { upstream, contents: head.headers[CONTENTS_HEADER] };
    for (;;) {
      try {
        await this.#relay(request, writer.upstream);
        request.transfer = null;
        response.end();
        return;
      } catch (error) {
        this.#expectToGoOn(request, writer.upstream, error);
        writer = await this.#goOn(request, writer);
      }
    }
  }

  /** @throws what no other instance can mend. */
  #expectToGoOn(request: ClientRequest, upstream: UpstreamRequest, error: unknown): void {
    const { progress, options } = request;
    const { instance } = upstream;
    if (progress.numEvents > request.resumedAt) request.losses.clear();
    if (error instanceof UpstreamFailure) this.#noteLoss(request, upstream);
    else if (!(error instanceof BrokenStreamError)) throw error;
    else if (FAULTS.has(error.status ?? 0)) instance.noteFault(error.message);
    else instance.noteFailure(error.message);
    if (progress.isBroken) throw new CutOffError('its tokens are not known, or too many');
    if (progress.hasBegun && !options.body.isRepeatable) {
      throw new CutOffError('it samples without a seed: another instance would write another answer');
    }
  }

  async #relay(request: ClientRequest, upstream: UpstreamRequest): Promise<void> {
    const { supportsResume } = upstream.instance;
    request.options.response.hasWholeEvents = supportsResume;
    if (supportsResume) {
      upstream.maxSilence = this.#parts.deadlines.streamSilence;
      await relayEvents(upstream, request, () => this.#noteFirstByte(request));
    } else {
      await relayBytes(upstream, request, () => {
        request.progress.isBroken = true;
        this.#noteFirstByte(request);
      });
    }
  }

  /**
   * Another D writes the stream from its beginning; the events that the client has are dropped on the way. It may be the same D: the id
   * of the transfer is being cancelled there, so the request goes without one. Of a stream that has not begun a P computes the prompt
   * again, but for a D that has had no room before, and any D may write it.
   */
  async #goOn(request: ClientRequest, broken: StreamWriter): Promise<StreamWriter> {
    const { progress, attempts } = request;
    const { hasBegun } = progress;
    if (progress.numEvents > request.resumedAt) attempts.clear();
    request.resumedAt = progress.numEvents;
    attempts.add(broken.upstream.instance);
    this.#cancelTransfer(request);
    const body = bodyToGoOn(request);
    let asksPrefill = !hasBegun;
    const deadline = performance.now() + this.#parts.deadlines.room;
    for (;;) {
      const decode = await this.#pickDecode(request, hasBegun ? broken.upstream.instance : null);
      if (decode === null) throw new CutOffError('no other instance can go on with it');
      // All streams of an instance that is gone come to the others at once, and room is soon there.
      if (attempts.isFull(decode)) {
        if (performance.now() > deadline) throw new CutOffError('no other instance has had room for it');
        await sleep(this.#parts.deadlines.pause);
        attempts.forgetFull();
        asksPrefill = false;
        continue;
      }
      const { id } = asksPrefill ? await this.#prefill(request, decode) : { id: request.options.id };
      if (!this.#maySend(request, decode)) continue;
      const upstream = this.#send(request, decode, 'decode', body, id);
      const head = await headOf(upstream);
      const contents = head?.headers[CONTENTS_HEADER];
      const isSame = !hasBegun || contents === broken.contents;
      if (head?.status === 200 && isEventStream(head) && isSame) {
        this.#parts.metrics.resumes.inc();
        return { upstream, contents };
      }
      this.#noteRefused(request, upstream, head);
    }
  }

  /** @param head null where there is none. */
  #noteRefused(request: ClientRequest, upstream: UpstreamRequest, head: ResponseHead | null): void {
    const { attempts } = request;
    const { instance } = upstream;
    if (head !== null) noteStatus(instance, head.status);
    upstream.cancel(new UpstreamFailure('the instance does not continue the stream'));
    this.#cancelTransfer(request);
    if (NO_ROOM.has(head?.status ?? 0)) {
      attempts.addFull(instance);
      return;
    }
    if (head === null) this.#noteLoss(request, upstream);
    attempts.add(instance);
    // One that has only lost the connection may be asked again.
    if (head !== null) attempts.exclude(instance);
  }

  #send(request: ClientRequest, instance: Instance, phase: Phase, body: Buffer, id: string): UpstreamRequest {
    const { options } = request;
    request.throwIfAborted();
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      'x-request-id': id,
      'x-svc-answer-id': options.id,
    };
    if (options.authorization !== undefined) headers.authorization = options.authorization;
    const { proxy_token } = instance.registration;
    if (proxy_token !== undefined) {
      headers['x-svc-proxy-token'] = proxy_token;
      headers['x-svc-caller'] = options.caller;
    }
    if (phase === 'decode' && options.body.isStream) headers['x-svc-journal'] = '1';
    this.#parts.metrics.upstream.inc({ instance: instance.httpAddress, leg: phase });
    const span = options.span?.call(phase);
    span?.set({ 'server.address': instance.httpAddress });
    request.upstream = new UpstreamRequest(instance, {
      method: 'POST',
      path: options.endpoint.path,
      headers: { ...headers, ...span?.headers() },
      body,
      onEnd: (error) => span?.end(error),
    });
    return request.upstream;
  }

  #noteServed(request: ClientRequest, prefill: Instance | null, decode: Instance): void {
    this.#parts.picker.served(request.options.body, prefill, decode);
    if (prefill !== null) this.#parts.recent.add(prefill, decode, performance.now() - request.startedAt);
  }

  #noteFirstByte(request: ClientRequest): void {
    if (request.hasFirstByte) return;
    request.hasFirstByte = true;
    this.#parts.metrics.firstByte.observe(secondsSince(request.startedAt));
  }

  /** Frees at once what P and D hold for a transfer that is not needed any more. */
  #cancelTransfer(request: ClientRequest): void {
    const { transfer } = request;
    request.transfer = null;
    if (transfer === null) return;
    for (const instance of [transfer.prefill, transfer.decode]) {
      this.#parts.cancels.notify(instance, transfer.id, request.options.authorization);
    }
  }
}

function secondsSince(milliseconds: number): number {
  return (performance.now() - milliseconds) / 1000;
}

/** Null where the instance gives none. */
async function headOf(upstream: UpstreamRequest): Promise<ResponseHead | null> {
  try {
    return await upstream.head;
  } catch (error) {
    if (error instanceof UpstreamFailure) return null;
    throw error;
  }
}

function bodyToGoOn({ progress, options: { endpoint, body } }: ClientRequest): Buffer {
  const fields = progress.hasBegun ? endpoint.resumeFields(progress, body.numChoices) : null;
  return fields === null ? body.bytes : withFields(body.bytes, fields);
}

function noteStatus(instance: Instance, status: number): void {
  if (status === LEAVING) instance.noteFailure(`it takes no requests just now (${status})`);
  else if (FAULTS.has(status)) instance.noteFault(`it has answered with a fault (${status})`);
}

function isEventStream({ headers }: ResponseHead): boolean {
  const type = headers['content-type'];
  return typeof type === 'string' && type.startsWith('text/event-stream');
}

function noInstance(): SvcError {
  return new NotReadyError('No decode instance can take the request now: come again in a few seconds', {
    retryAfter: RETRY_AFTER,
  });
}

/** No other instance goes on with a stream. */
class CutOffError extends NotReadyError {
  /** For whoever runs the proxy. */
  readonly why: string;

  constructor(why: string) {
    super(
      'The instance that wrote this answer is gone, and no other one can continue it: send the request again',
      { retryAfter: RETRY_AFTER },
    );
    this.why = why;
  }
}
