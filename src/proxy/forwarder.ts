// The course of a disaggregated request, in order:
//   1. a decode instance (D) and a prefill instance (P) are picked;
//   2. P computes the prompt: the same request with one token, under an id that names both;
//   3. D gets the request itself, finds P by the id and takes the KV blocks over;
//   4. D's answer goes to the client untouched;
//   5. whoever fails on the way is replaced: before the first byte by trying again, behind it by letting another D
//      continue the stream where it broke.
// The routes call it.

import { makeRequestId } from '../cluster/request-id.ts';
import { NotReadyError, type SvcError } from '../errors.ts';
import { toSvcError } from '../http/errors.ts';
import { type Call, ClientGoneError } from './call.ts';
import type { Cancels } from './cancels.ts';
import { BrokenStreamError } from './event-filter.ts';
import type { Instance } from './instance.ts';
import { prefillBody, resumeBody } from './job.ts';
import { Leg, type LegHead } from './leg.ts';
import { LegFailure } from './leg-failure.ts';
import type { ProxyMetrics } from './metrics.ts';
import type { RecentTransfers } from './recent-transfers.ts';
import type { Router } from './router.ts';
import { relayBytes, relayStream } from './stream-relay.ts';

export interface ForwarderParts {
  readonly router: Router;
  readonly metrics: ProxyMetrics;
  readonly cancels: Cancels;
  readonly recent: RecentTransfers;
  /** Milliseconds without a byte after which a stream is given up. */
  readonly streamSilence: number;
}

/** The way of a request to D: under which id, and who has computed its prompt. */
interface Prefilled {
  readonly id: string;
  readonly prefill: Instance | null;
}

/** Prefill instances that are asked before D computes the prompt itself. */
const MAX_PREFILL_TRIES = 3;
/** Instances that are asked for one answer while none of them gets anywhere. */
const MAX_TRIES = 8;
/** Seconds; the next heartbeats have come by then. */
const RETRY_AFTER = 3;
/** An instance that answers so is full or about to leave. */
const NO_ROOM = new Set([429, 503]);
/** It may be the fault of the request: only one more instance is asked. */
const FAULTS = new Set([500, 502]);

export class Forwarder {
  readonly #parts: ForwarderParts;

  constructor(parts: ForwarderParts) {
    this.#parts = parts;
  }

  /** Answers the client of `call`, whatever happens. */
  async answer(call: Call): Promise<void> {
    try {
      while (!(await this.#attempt(call))) this.#parts.metrics.retried('decode');
    } catch (thrown) {
      if (!(thrown instanceof ClientGoneError)) call.client.fail(toSvcError(thrown));
    } finally {
      this.#forgetTransfer(call);
      call.close();
    }
  }

  /** One try with one D; false where another try makes sense. */
  async #attempt(call: Call): Promise<boolean> {
    const decode = this.#pickDecode(call);
    if (decode === null) return this.#giveUp(call);
    const { id, prefill } = await this.#prefill(call, decode);
    const leg = this.#ask(call, decode, 'decode', call.job.bytes, id);
    try {
      const head = await leg.head;
      this.#parts.metrics.legTook('decode', performance.now() - leg.openedAt);
      if (await this.#isRefused(call, leg, head)) return false;
      if (head.status === 200) this.#noteServed(call, prefill, decode);
      if (isEventStream(head)) await this.#stream(call, leg, head, id);
      else this.#sendWhole(call, head, await leg.whole());
      return true;
    } catch (error) {
      call.throwIfStopped();
      if (!(error instanceof LegFailure) || call.client.hasBegun) throw error;
      call.noteTry(decode);
      this.#forgetTransfer(call);
      return false;
    }
  }

  #pickDecode(call: Call): Instance | null {
    return call.numTries >= MAX_TRIES ? null : this.#parts.router.pickDecode(call.job, call.tried);
  }

  /** No instance is left: the client gets the last refusal as it is, or is told to come again. */
  #giveUp(call: Call): boolean {
    if (call.refusal === null) throw noInstance();
    this.#sendWhole(call, call.refusal.head, call.refusal.body);
    return true;
  }

  /** Lets a P compute the prompt where that is worth it; where none can, D does it alone. */
  async #prefill(call: Call, decode: Instance): Promise<Prefilled> {
    const { router, metrics } = this.#parts;
    const alone: Prefilled = { id: call.id, prefill: null };
    const tried = new Map<Instance, number>();
    while (tried.size < MAX_PREFILL_TRIES) {
      const prefill = router.pickPrefill(call.job, decode, tried);
      if (prefill === null || tried.has(prefill)) break;
      if (tried.size > 0) metrics.retried('prefill');
      tried.set(prefill, 1);
      const id = makeRequestId(prefill.zmqAddress, decode.zmqAddress);
      call.transfer = { id, prefill, decode };
      const status = await this.#computePrompt(call, prefill, id);
      if (status === 200) return { id, prefill };
      this.#forgetTransfer(call);
      // What P finds wrong with the request, D says in its own words.
      if (status !== null && status < 500 && status !== 429) return alone;
    }
    if (tried.size === 0) metrics.skippedPrefill();
    return alone;
  }

  /** The status of P, null where it gave none. */
  async #computePrompt(call: Call, prefill: Instance, id: string): Promise<number | null> {
    const leg = this.#ask(call, prefill, 'prefill', prefillBody(call.job), id);
    try {
      const { status } = await leg.head;
      await leg.whole();
      if (status === 503) prefill.noteFailure();
      this.#parts.metrics.legTook('prefill', performance.now() - leg.openedAt);
      return status;
    } catch (error) {
      call.throwIfStopped();
      if (error instanceof LegFailure) return null;
      throw error;
    }
  }

  /** Whether D would not take it and another one may. */
  async #isRefused(call: Call, leg: Leg, head: LegHead): Promise<boolean> {
    const { status } = head;
    const isSecondFault = FAULTS.has(status) && FAULTS.has(call.refusal?.head.status ?? 0);
    if (!(NO_ROOM.has(status) || FAULTS.has(status)) || isSecondFault) return false;
    call.refusal = { head, body: await leg.whole() };
    if (status === 503) leg.instance.noteFailure();
    call.noteTry(leg.instance, 2);
    this.#forgetTransfer(call);
    return true;
  }

  #sendWhole(call: Call, head: LegHead, body: Buffer): void {
    if (head.status === 200) call.transfer = null;
    this.#noteFirstByte(call);
    call.client.send(head, body);
  }

  /** Relays the stream, over as many instances as it takes. */
  async #stream(call: Call, first: Leg, head: LegHead, id: string): Promise<void> {
    const { client, journal } = call;
    client.begin(head, first.instance.isOurs);
    const onBytes = (): void => this.#noteFirstByte(call);
    for (let leg = first; ; leg = await this.#resume(call, leg, id)) {
      try {
        if (leg.instance.isOurs) leg.maxSilence = this.#parts.streamSilence;
        else journal.isBroken = true;
        await (leg.instance.isOurs
          ? relayStream(leg, journal, client, onBytes)
          : relayBytes(leg, client, onBytes));
        call.transfer = null;
        client.end();
        return;
      } catch (error) {
        call.throwIfStopped();
        if (!(error instanceof LegFailure || error instanceof BrokenStreamError)) throw error;
        leg.instance.noteFailure();
        if (journal.isBroken || !call.job.isRepeatable) throw cutOff();
      }
    }
  }

  /** Another D writes the stream from its beginning on; what the client has is dropped on the way. */
  async #resume(call: Call, broken: Leg, id: string): Promise<Leg> {
    const { router, metrics } = this.#parts;
    const { job, journal, tried } = call;
    if (journal.numEvents > call.resumedAt) tried.clear();
    call.resumedAt = journal.numEvents;
    call.noteTry(broken.instance);
    this.#forgetTransfer(call);
    while (call.numTries < MAX_TRIES) {
      const decode = router.pickDecode(job, tried, broken.instance);
      if (decode === null) break;
      metrics.resumed();
      const choices = journal.tokenIds(job.numChoices);
      const { created } = journal;
      const body = created === null ? job.bytes : resumeBody(job, { created, choices });
      const leg = this.#ask(call, decode, 'decode', body, id);
      try {
        const head = await leg.head;
        if (head.status === 200 && isEventStream(head)) return leg;
        leg.cancel();
      } catch (error) {
        call.throwIfStopped();
        if (!(error instanceof LegFailure)) throw error;
      }
      call.noteTry(decode, 2);
    }
    throw cutOff();
  }

  #ask(call: Call, instance: Instance, role: 'prefill' | 'decode', body: Buffer, id: string): Leg {
    call.throwIfStopped();
    const { path, isStream } = call.job;
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      'x-request-id': id,
      'x-svc-answer-id': call.id,
    };
    if (call.authorization !== undefined) headers.authorization = call.authorization;
    if (instance.proxyToken !== null) {
      headers['x-svc-proxy-token'] = instance.proxyToken;
      headers['x-svc-caller'] = call.caller;
    }
    if (role === 'decode' && isStream) headers['x-svc-journal'] = '1';
    this.#parts.metrics.asked(instance, role);
    call.leg = new Leg(instance, { method: 'POST', path, headers, body });
    return call.leg;
  }

  #noteServed(call: Call, prefill: Instance | null, decode: Instance): void {
    this.#parts.router.served(call.job, prefill, decode);
    if (prefill !== null) this.#parts.recent.add(prefill, decode, performance.now() - call.startedAt);
  }

  #noteFirstByte(call: Call): void {
    if (call.hasFirstByte) return;
    call.hasFirstByte = true;
    this.#parts.metrics.firstByte(performance.now() - call.startedAt);
  }

  /** What P and D hold for a transfer that is not needed any more is freed at once. */
  #forgetTransfer(call: Call): void {
    const { transfer, authorization } = call;
    call.transfer = null;
    if (transfer === null) return;
    for (const instance of [transfer.prefill, transfer.decode]) {
      this.#parts.cancels.tell(instance, transfer.id, authorization);
    }
  }
}

function isEventStream({ headers }: LegHead): boolean {
  const type = headers['content-type'];
  return typeof type === 'string' && type.startsWith('text/event-stream');
}

function noInstance(): SvcError {
  return new NotReadyError('No decode instance can take the request now: come again in a few seconds', {
    retryAfter: RETRY_AFTER,
  });
}

function cutOff(): SvcError {
  return new NotReadyError(
    'The instance that wrote this answer is gone, and no other one can continue it: send the request again',
    { retryAfter: RETRY_AFTER },
  );
}
