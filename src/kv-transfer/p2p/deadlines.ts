// How long KV transfer waits for what, in milliseconds: all in one place, so that no wait is without an end and tests
// can shorten them.

export interface Deadlines {
  /** For the answer of a peer to one message, connecting included. */
  readonly answer: number;
  /** Between two pings of a peer with which transfers are open; it is gone after `missedPings` without an answer. */
  readonly ping: number;
  readonly missedPings: number;
  /** A peer with which nothing is open is let go. */
  readonly idlePeer: number;
  /** P holds blocks that nobody asks for. */
  readonly hold: number;
  /** P sends blocks, or D receives them: without a new piece for so long, the transfer is begun anew, then given up. */
  readonly stall: number;
  /** P waits with its answer until D has the blocks (PUT). */
  readonly put: number;
  /** D keeps what no request has come for. */
  readonly unclaimed: number;
  /** D waits for room for a pull. */
  readonly room: number;
  /** D waits for all blocks of a request, whatever happens meanwhile. */
  readonly load: number;
  /** D asks again a P that does not know a transfer (yet), and between two questions. */
  readonly unknown: number;
  readonly unknownRetry: number;
  /** How often the deadlines of transfers are looked at. */
  readonly sweep: number;
}

export const DEADLINES: Deadlines = {
  answer: 2_000,
  ping: 2_000,
  missedPings: 3,
  idlePeer: 60_000,
  hold: 60_000,
  stall: 10_000,
  put: 30_000,
  unclaimed: 60_000,
  room: 10_000,
  load: 120_000,
  unknown: 1_000,
  unknownRetry: 50,
  sweep: 250,
};
