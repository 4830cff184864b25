// One client request on its way through the proxy: what it asks, what has been tried, and what instances hold for it.

import type { Abortable } from '../http/in-flight.ts';
import type { RequestSpan } from '../observability/tracing.ts';
import { Attempts } from './attempts.ts';
import type { ClientResponse } from './client-response.ts';
import type { EndpointAdapter } from './endpoints/endpoint.ts';
import type { Instance } from './instance.ts';
import { Losses } from './losses.ts';
import type { RequestBody } from './request-body.ts';
import { StreamProgress } from './stream-progress.ts';
import type { ResponseHead, UpstreamRequest } from './upstream-request.ts';

/** A KV transfer that two instances may still hold memory for. */
interface OpenTransfer {
  readonly id: string;
  readonly prefill: Instance;
  readonly decode: Instance;
}

interface ClientRequestOptions {
  readonly endpoint: EndpointAdapter;
  readonly body: RequestBody;
  readonly response: ClientResponse;
  /** What the client sees: the id of the answer. */
  readonly id: string;
  /** The name under which instances count the client's requests. */
  readonly caller: string;
  readonly authorization: string | undefined;
  /** Null where nobody traces. */
  readonly span: RequestSpan | null;
}

export class ClientRequest implements Abortable {
  readonly options: ClientRequestOptions;
  readonly startedAt = performance.now();
  readonly progress = new StreamProgress();
  /** At decode instances. */
  readonly attempts = new Attempts();
  /** The last answer of an instance that would not take it. */
  refusal: { readonly head: ResponseHead; readonly body: Buffer } | null = null;
  /** Since it last got anywhere. */
  readonly losses = new Losses();
  transfer: OpenTransfer | null = null;
  /** It has computed the prompt, and has it in its cache where another D wants it. */
  prefilledBy: Instance | null = null;
  hasFirstByte = false;
  /** Events that the client had when another instance last began to continue its stream. */
  resumedAt = -1;
  upstream: UpstreamRequest | null = null;

  #abortReason: Error | null = null;

  constructor(options: ClientRequestOptions) {
    this.options = options;
  }

  /** Ends what instances do for it. */
  abort(reason: Error): void {
    this.#abortReason ??= reason;
    this.upstream?.cancel(reason);
  }

  throwIfAborted(): void {
    if (this.#abortReason !== null) throw this.#abortReason;
  }
}
