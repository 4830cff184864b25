// One client request on its way through the proxy: what it asks, what has been tried, and how it is stopped. The routes
// open one a request; forwarder.ts leads it through.

import { RequestTimeoutError, SvcError } from '../errors.ts';
import type { ClientReply } from './client-reply.ts';
import type { Instance } from './instance.ts';
import type { Job } from './job.ts';
import { Journal } from './journal.ts';
import type { Leg, LegHead } from './leg.ts';

/** The client has left: there is nobody to tell. */
export class ClientGoneError extends SvcError {}

/** A KV transfer that two instances may still hold memory for. */
export interface OpenTransfer {
  readonly id: string;
  readonly prefill: Instance;
  readonly decode: Instance;
}

export interface CallOptions {
  /** What the client sees: the id of the answer. */
  readonly id: string;
  /** The client, as instances count its requests. */
  readonly caller: string;
  /** What instances are shown. */
  readonly authorization: string | undefined;
  /** 0 is no limit. */
  readonly timeoutMs: number;
}

export class Call {
  readonly job: Job;
  readonly client: ClientReply;
  readonly id: string;
  readonly caller: string;
  readonly authorization: string | undefined;
  readonly startedAt = performance.now();
  readonly journal = new Journal();
  /** Decode instances that were asked, and how often. */
  readonly tried = new Map<Instance, number>();
  /** The last answer of an instance that would not take it. */
  refusal: { readonly head: LegHead; readonly body: Buffer } | null = null;
  transfer: OpenTransfer | null = null;
  hasFirstByte = false;
  /** Events that the client had when another instance last began to continue its stream. */
  resumedAt = -1;
  /** The exchange that is under way. */
  leg: Leg | null = null;
  readonly #deadline: NodeJS.Timeout | null;
  #stopped: SvcError | null = null;

  constructor(job: Job, client: ClientReply, { id, caller, authorization, timeoutMs }: CallOptions) {
    this.job = job;
    this.client = client;
    this.id = id;
    this.caller = caller;
    this.authorization = authorization;
    this.#deadline = timeoutMs === 0 ? null : setTimeout(() => this.stop(tooLate(timeoutMs)), timeoutMs);
  }

  /** Ends it with `reason`; what instances do for it ends too. */
  stop(reason: SvcError): void {
    this.#stopped ??= reason;
    this.leg?.cancel();
  }

  /** @throws the reason for which it was stopped. */
  throwIfStopped(): void {
    if (this.#stopped !== null) throw this.#stopped;
  }

  get numTries(): number {
    return [...this.tried.values()].reduce((sum, tries) => sum + tries, 0);
  }

  noteTry(instance: Instance, tries = 1): void {
    this.tried.set(instance, (this.tried.get(instance) ?? 0) + tries);
  }

  close(): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
  }
}

function tooLate(timeoutMs: number): RequestTimeoutError {
  return new RequestTimeoutError(
    `The request took longer than the ${timeoutMs / 1000} seconds that this proxy gives to one (--request-timeout)`,
  );
}
