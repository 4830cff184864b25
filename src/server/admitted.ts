// What every request for the model has: admission before its body is looked at, a deadline, and an end with the client.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { InferenceEngine, Ticket } from '../engine/inference-engine.ts';
import { ClientGoneError } from '../http/in-flight.ts';
import { sharedAbortController } from '../util/abortable.ts';
import type { Client } from '../util/client.ts';
import { RequestSpans } from './request-spans.ts';
import type { ServerContext } from './server-context.ts';

const RANK_HEADER = 'x-data-parallel-rank';

/** A request that the server has let in. */
export interface AdmittedRequest {
  readonly engine: InferenceEngine;
  /** Ends everything that is done for the request. */
  readonly controller: Pick<AbortController, 'signal' | 'abort'>;
  /** For whom it is done. */
  readonly client: Client;
  /**
   * Takes places in the engine, which are given back with the answer.
   * @param numTokens of the prompts of all sequences.
   * @throws OverloadedError where there are none for this caller, the reason of an abort.
   */
  open(numSequences: number, numTokens: number): Ticket;
}

/** @returns what the route's handler returns. */
export async function answerAdmitted(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  answer: (admitted: AdmittedRequest) => Promise<unknown>,
): Promise<unknown> {
  const { engine, options } = context;
  const caller = context.callerOf(request);
  const rank = rankOf(engine, request);
  // A full server does not read what it cannot take.
  engine.admission.check(caller, 1);
  const spans = spansOf(context, request);
  const controller = sharedAbortController();
  context.inFlight.add(controller, reply, {
    requestId: request.id,
    timeoutMs: options.requestTimeoutMs ?? 0,
  });
  const { hold, release: releaseImages } = engine.heldImages.open(caller);
  const releases = [releaseImages];
  const open: AdmittedRequest['open'] = (numSequences, numTokens) => {
    controller.signal.throwIfAborted();
    const onSampleEnded: Ticket['onSampleEnded'] = (sample) => spans?.sampleEnded(sample);
    const ticket = engine.admission.open(caller, numSequences, { numTokens, rank, onSampleEnded });
    releases.push(() => ticket.close());
    return ticket;
  };
  try {
    return await answer({ engine, controller, client: { signal: controller.signal, caller, hold }, open });
  } catch (error) {
    // Ends the other prompts of the request, too.
    controller.abort(error);
    if (!(error instanceof ClientGoneError)) throw error;
    reply.hijack();
    return undefined;
  } finally {
    for (const release of releases) release();
    spans?.end(failureOf(controller.signal));
  }
}

/** Null where nothing has ended the request before its answer was complete. A stream that fails tells its client by itself. */
function failureOf({ aborted, reason }: AbortSignal): Error | null {
  if (!aborted) return null;
  return reason instanceof Error ? reason : new Error(String(reason));
}

/**
 * Of the engine that the client names; null where any may compute the request.
 * @throws InvalidRequestError where there is none of that rank.
 */
function rankOf(engine: InferenceEngine, { headers }: FastifyRequest): number | null {
  const named = headers[RANK_HEADER];
  if (named === undefined) return null;
  const rank = /^\d+$/.test(String(named)) ? Number(named) : Number.NaN;
  engine.expectRank(rank);
  return rank;
}

/** Null where nobody traces. */
function spansOf({ options }: ServerContext, { id, headers }: FastifyRequest): RequestSpans | null {
  const span = options.tracing?.request('llm_request', headers);
  return span === undefined ? null : new RequestSpans(span, id);
}
