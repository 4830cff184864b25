// Asks a server for the lines of a batch, and makes of each answer the result that the batch format wants.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import * as z from 'zod';
import { parseJson } from '../../util/parse-json.ts';
import type { ApiClient } from '../api-client.ts';
import type { BatchLine, BatchRequest } from './batch-input.ts';

/** One line of the output. */
export interface BatchResult {
  readonly id: string;
  readonly custom_id: string | null;
  readonly response: { status_code: number; request_id: string; body: unknown } | null;
  readonly error: unknown;
}

export interface Answered {
  readonly result: BatchResult;
  readonly usage: { readonly promptTokens: number; readonly outputTokens: number };
}

const BUSY = new Set([429, 503]);
/** Of one request, while no other is under way. */
const MAX_TRIES = 60;
const DEFAULT_WAIT_S = 1;

const failure = z.object({ error: z.looseObject({}) });
const withUsage = z.object({
  usage: z.object({ prompt_tokens: z.number().default(0), completion_tokens: z.number().default(0) }),
});

export class BatchClient {
  readonly #origin: string;
  readonly #apiKey: string;
  // An answer may take as long as it takes: the model is in this process.
  readonly #agent: Agent;
  /** Requests that are not answered yet, and those of them that wait until they come again. */
  #numOpen = 0;
  #numWaiting = 0;

  constructor({ url, apiKey }: ApiClient, concurrency: number) {
    this.#origin = new URL(url).origin;
    this.#apiKey = apiKey;
    this.#agent = new Agent({ connections: concurrency, headersTimeout: 0, bodyTimeout: 0 });
  }

  async answer({ customId, request, fault }: BatchLine): Promise<Answered> {
    const ids = { id: `batch_req_${randomUUID()}`, custom_id: customId };
    if (request === null) {
      const error = { message: fault, type: 'BadRequestError', param: null, code: 400 };
      return { result: { ...ids, response: null, error }, usage: { promptTokens: 0, outputTokens: 0 } };
    }
    this.#numOpen += 1;
    const { status, requestId, body } = await this.#send(request).finally(() => {
      this.#numOpen -= 1;
    });
    const { data: failed } = failure.safeParse(body);
    const { prompt_tokens = 0, completion_tokens = 0 } = withUsage.safeParse(body).data?.usage ?? {};
    return {
      result: {
        ...ids,
        response: { status_code: status, request_id: requestId, body },
        error: status === 200 ? null : (failed?.error ?? null),
      },
      usage: { promptTokens: prompt_tokens, outputTokens: completion_tokens },
    };
  }

  close(): Promise<void> {
    return this.#agent.close();
  }

  /** A server that is full says when to come again. It is full of this batch: as long as others are under way there will be room. */
  async #send({ path, body }: BatchRequest): Promise<{ status: number; requestId: string; body: unknown }> {
    for (let tries = 1; ; ) {
      const {
        statusCode,
        headers,
        body: answer,
      } = await send(`${this.#origin}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${this.#apiKey}` },
        body,
        dispatcher: this.#agent,
      });
      const text = await answer.text();
      if (!BUSY.has(statusCode) || tries === MAX_TRIES) {
        return { status: statusCode, requestId: String(headers['x-request-id']), body: parseJson(text) };
      }
      this.#numWaiting += 1;
      if (this.#numWaiting === this.#numOpen) tries += 1;
      await sleep(1000 * (Number(headers['retry-after']) || DEFAULT_WAIT_S));
      this.#numWaiting -= 1;
    }
  }
}
