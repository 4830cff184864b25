// One instance as the proxy knows it: what it said of itself, how it is, and the connections to it.

import { Pool } from 'undici';
import type { InstanceLoad, RegistrationMessage } from '../cluster/discovery-message.ts';
import { MAX_CONNECTIONS } from './deadlines.ts';

export type InstanceState = 'ready' | 'draining' | 'gone';

/** An instance did not answer a request: the connection was refused or broke, or nothing came for too long. */
export class UpstreamFailure extends Error {}

/** A request to an instance that is under way, as the instance sees it. */
export interface OpenRequest {
  /** When bytes last came, by performance.now(). */
  movedAt: number;
  fail(failure: UpstreamFailure): void;
  checkSilence(now: number): void;
}

/** @param isNews whether it is the first failure since it was last heard of. */
export type InstanceFailed = (instance: Instance, why: string, isNews: boolean) => void;

interface InstanceIdentity {
  readonly ordinal: number;
  readonly run: number;
  /** See `Instance.epochsSoFar`. */
  readonly earlierEpochs: readonly string[];
}

/** At one address: what is heard late is of the last ones. */
const REMEMBERED_RUNS = 8;

export class Instance {
  /** What it said when it came; the heartbeats of this run differ in state and load only. */
  readonly registration: RegistrationMessage;
  readonly type: 'P' | 'D';
  readonly httpAddress: string;
  readonly zmqAddress: string;
  readonly model: string | null;
  /** Its number among all, kept when it comes back. */
  readonly ordinal: number;
  /** Another one after each restart: what was known of an earlier run is void. */
  readonly run: number;
  readonly pool: Pool;
  readonly openRequests = new Set<OpenRequest>();
  /** Requests that come to it once their prompt is computed elsewhere. */
  numExpected = 0;
  state: InstanceState;
  /** It refused a connection or made no progress; its next heartbeat clears that. */
  isSuspect = false;
  load: InstanceLoad | null;
  /** It is gone because nothing was heard of it; it has not said goodbye. */
  isMissed = false;
  /** When it was last heard of, by performance.now(). */
  seenAt: number;
  readonly #earlierEpochs: readonly string[];
  #ownAtHeartbeat = 0;
  /** Requests of ours that its load may have counted: an instance tells what it has counted at the heartbeat before. */
  #ownInLoad = 0;
  readonly #failed: InstanceFailed;
  #hasToldFailure = false;

  constructor(
    message: RegistrationMessage,
    identity: InstanceIdentity,
    connectMs: number,
    failed: InstanceFailed,
  ) {
    this.registration = message;
    this.type = message.type;
    this.httpAddress = message.http_address;
    this.zmqAddress = message.zmq_address;
    this.model = message.model ?? null;
    this.ordinal = identity.ordinal;
    this.run = identity.run;
    this.#earlierEpochs = identity.earlierEpochs;
    this.state = message.state ?? 'ready';
    this.load = message.load ?? null;
    this.seenAt = performance.now();
    this.#failed = failed;
    this.pool = new Pool(`http://${message.http_address}`, {
      connections: MAX_CONNECTIONS,
      pipelining: 1,
      bodyTimeout: 0,
      headersTimeout: 0,
      connect: { timeout: connectMs },
    });
  }

  /** It writes the journal of streams, from which another instance continues them. */
  get supportsResume(): boolean {
    return this.registration.epoch !== undefined;
  }

  /** A longer prompt goes on from one that it has received. */
  get extendsReceived(): boolean {
    return this.registration.keeps_states !== true;
  }

  /** It can also answer a request alone. */
  get mayDecode(): boolean {
    return this.type === 'D' || this.registration.role === 'kv_both';
  }

  /** Whether both announce one model, as far as they say: prompts of one are computed by the other. */
  sharesModel({ model }: Instance): boolean {
    return this.model === null || model === null || this.model === model;
  }

  /** Whether the same run of the same instance says this. */
  isSameRun(message: RegistrationMessage): boolean {
    const { type, zmq_address, epoch } = this.registration;
    return type === message.type && zmq_address === message.zmq_address && epoch === message.epoch;
  }

  /** Whether a run says this that was replaced by this one: what was on its way may be heard after its end. */
  isEarlierRun({ epoch }: RegistrationMessage): boolean {
    return epoch !== undefined && this.#earlierEpochs.includes(epoch);
  }

  /** What the next run at this address is not to be taken for. */
  get epochsSoFar(): readonly string[] {
    const { epoch } = this.registration;
    return epoch === undefined
      ? this.#earlierEpochs
      : [...this.#earlierEpochs, epoch].slice(-REMEMBERED_RUNS);
  }

  /** Bytes of an answer have come: a heartbeat may be late where its processors are busy. */
  heard(): void {
    this.seenAt = performance.now();
  }

  heartbeat(message: RegistrationMessage): void {
    this.heard();
    this.isSuspect = false;
    this.#hasToldFailure = false;
    this.isMissed = false;
    this.state = message.state ?? 'ready';
    this.load = message.load ?? null;
    this.#ownInLoad = this.#ownAtHeartbeat;
    this.#ownAtHeartbeat = this.openRequests.size;
  }

  /** @param why for a person */
  noteFailure(why: string): void {
    this.isSuspect = true;
    this.#tellFailure(why);
  }

  /** The same where it may be the fault of the request. */
  noteFault(why: string): void {
    this.#tellFailure(why);
  }

  #tellFailure(why: string): void {
    const isNews = !this.#hasToldFailure;
    this.#hasToldFailure = true;
    this.#failed(this, why, isNews);
  }

  /** Requests that it has, or is to have: our own now, and those of others as far as it has told. */
  get numRequests(): number {
    const { load } = this;
    const others = load === null ? 0 : load.running + load.waiting - this.#ownInLoad;
    return this.openRequests.size + this.numExpected + Math.max(0, others);
  }

  /** Fails the requests that have had no byte since `before`. */
  failSilent(before: number, failure: UpstreamFailure): void {
    for (const request of [...this.openRequests]) if (request.movedAt < before) request.fail(failure);
  }

  close(): void {
    void this.pool.destroy();
  }
}
