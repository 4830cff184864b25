// How long each wait of KV transfer may take, in milliseconds: all in one place, so that no wait is endless and tests can
// shorten them.

export const DEADLINES = {
  /** For the answer of a peer to one message, connecting included. */
  answer: 2_000,
  /** Two GPUs meet over NCCL, which looks for networks first. */
  nccl: 20_000,
  /** Between two pings of a peer with open transfers; it is gone after `missedPings` without an answer. */
  ping: 2_000,
  missedPings: 3,
  /** A peer without open transfers is evicted. */
  idlePeer: 60_000,
  /** P holds blocks that nobody asks for. */
  hold: 60_000,
  /** D receives blocks: without a new one for so long, they are pulled again, then given up. */
  stall: 10_000,
  /** P waits with its answer until D has the blocks (PUT). */
  put: 30_000,
  /** D keeps blocks that no request has claimed. */
  unclaimed: 60_000,
  /** D waits for room for a pull. */
  room: 10_000,
  /** D waits for all blocks of a request, whatever happens meanwhile. */
  load: 120_000,
  /** D asks again, every `unknownRetry`, where P does not know a transfer (yet). */
  unknown: 1_000,
  unknownRetry: 50,
  /** An instance that has not heard that it can let go of blocks is told again, every `noticeRetry`: by then it has let go itself. */
  notice: 60_000,
  noticeRetry: 1_000,
  /** Between two looks at the deadlines of transfers and peers. */
  sweep: 250,
};

export type Deadlines = Readonly<typeof DEADLINES>;
