// The deadlines of the proxy in one place; tests bring shorter ones.

export interface ProxyDeadlines {
  /**
   * An instance that has been silent for this long gets new requests only where no other is left. One that was given up is waited for
   * as long.
   */
  readonly late: number;
  /** Three missed heartbeats of 3 s, and slack. */
  readonly expiry: number;
  readonly sweep: number;
  /** How long an instance that has left is still listed. */
  readonly remember: number;
  readonly connect: number;
  /** Our instances write into every stream at least each 15 s. */
  readonly streamSilence: number;
  /** Silence before the first event of a stream that is broken by a comment. */
  readonly silence: number;
  /** How long a stream that is to go on waits while no other instance has room. */
  readonly room: number;
  /** Before an instance is looked for again. */
  readonly pause: number;
  readonly cancel: number;
  /** A client that takes nothing for this long is cut off. */
  readonly slowClient: number;
}

/** Milliseconds. */
export const PROXY_DEADLINES: ProxyDeadlines = {
  late: 5000,
  expiry: 10_000,
  sweep: 500,
  remember: 60_000,
  connect: 2000,
  streamSilence: 45_000,
  silence: 15_000,
  room: 30_000,
  pause: 1000,
  cancel: 2000,
  slowClient: 60_000,
};

/** Instances that are listed; further registrations are refused. */
export const MAX_INSTANCES = 4096;
/** Connections to one instance; further requests wait for one. */
export const MAX_CONNECTIONS = 1024;
