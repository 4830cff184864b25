// One instance as the proxy knows it: what it said of itself, how it is, and the connections to it. instances.ts makes
// and ends them.

import { Pool } from 'undici';
import type { InstanceLoad, RegistrationMessage } from '../cluster/discovery-message.ts';
import { MAX_CONNECTIONS } from './deadlines.ts';
import type { LegFailure } from './leg-failure.ts';

export type InstanceState = 'ready' | 'draining' | 'gone';

/** What is under way to an instance, as far as the instance has to do with it. */
export interface OpenLeg {
  /** When bytes last came, by Date.now(). */
  readonly movedAt: number;
  fail(failure: LegFailure): void;
  checkSilence(now: number): void;
}

export class Instance {
  readonly type: 'P' | 'D';
  readonly httpAddress: string;
  readonly zmqAddress: string;
  readonly epoch: string | null;
  readonly model: string | null;
  /** Proves to it that this proxy speaks; null where it does not ask. */
  readonly proxyToken: string | null;
  readonly role: string | null;
  readonly sendType: string | null;
  /** Its place among all, kept when it comes back. */
  readonly ordinal: number;
  /** Another one after each restart: what was known of an earlier run is void. */
  readonly run: number;
  readonly pool: Pool;
  /** What is under way to it. */
  readonly legs = new Set<OpenLeg>();
  state: InstanceState;
  /** It refused a connection or made no progress; its next heartbeat clears that. */
  isSuspect = false;
  load: InstanceLoad | null;
  /** By Date.now(). */
  seenAt: number;
  /** Requests of ours that its last heartbeat may have counted. */
  #ownAtHeartbeat = 0;
  readonly #failed: (instance: Instance) => void;

  constructor(
    message: RegistrationMessage,
    place: { readonly ordinal: number; readonly run: number },
    connectMs: number,
    failed: (instance: Instance) => void,
  ) {
    this.type = message.type;
    this.httpAddress = message.http_address;
    this.zmqAddress = message.zmq_address;
    this.epoch = message.epoch ?? null;
    this.model = message.model ?? null;
    this.proxyToken = message.proxy_token ?? null;
    this.role = message.role ?? null;
    this.sendType = message.send_type ?? null;
    this.ordinal = place.ordinal;
    this.run = place.run;
    this.state = message.state ?? 'ready';
    this.load = message.load ?? null;
    this.seenAt = Date.now();
    this.#failed = failed;
    this.pool = new Pool(`http://${message.http_address}`, {
      connections: MAX_CONNECTIONS,
      pipelining: 1,
      bodyTimeout: 0,
      headersTimeout: 0,
      connect: { timeout: connectMs },
    });
  }

  /** It speaks the journal of streams, so that another one can continue them. */
  get isOurs(): boolean {
    return this.epoch !== null;
  }

  /** It can also answer a request alone. */
  get mayDecode(): boolean {
    return this.type === 'D' || this.role === 'kv_both';
  }

  /** Whether this is said by the same run of the same instance. */
  isSaidBy(message: RegistrationMessage): boolean {
    return (
      this.type === message.type &&
      this.zmqAddress === message.zmq_address &&
      this.epoch === (message.epoch ?? null)
    );
  }

  heartbeat(message: RegistrationMessage): void {
    this.seenAt = Date.now();
    this.isSuspect = false;
    this.state = message.state ?? 'ready';
    this.load = message.load ?? null;
    this.#ownAtHeartbeat = this.legs.size;
  }

  noteFailure(): void {
    this.isSuspect = true;
    this.#failed(this);
  }

  /** Requests that it has: ours now, and those of others when it last said so. */
  get numRequests(): number {
    const { load } = this;
    const others = load === null ? 0 : load.running + load.waiting - this.#ownAtHeartbeat;
    return this.legs.size + Math.max(0, others);
  }

  /** Ends what has not moved since `before`. */
  failSilentLegs(before: number, failure: LegFailure): void {
    for (const leg of [...this.legs]) if (leg.movedAt < before) leg.fail(failure);
  }

  close(): void {
    void this.pool.destroy();
  }
}
