// How a person or a supervisor ends a long-running command: serve and proxy wait for it.

import type { BaseLogger } from 'pino';
import { endBySignal } from './exit.ts';

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Ctrl-C under npm comes twice, from the terminal and passed on by npm; so does SIGTERM to a group of processes. */
const ONE_REQUEST_MS = 500;

/** The first SIGTERM or SIGINT asks for an orderly end, a later one ends the process at once. */
export class StopRequest {
  readonly requested: Promise<null>;

  constructor(logger: Pick<BaseLogger, 'info'>) {
    this.requested = new Promise((resolve) => {
      let firstAt: number | null = null;
      for (const signal of SIGNALS) {
        process.on(signal, () => {
          if (firstAt !== null) {
            if (performance.now() - firstAt > ONE_REQUEST_MS) endBySignal(signal);
            return;
          }
          firstAt = performance.now();
          logger.info(`${signal}: shutting down; once more ends at once`);
          resolve(null);
        });
      }
    });
  }
}

interface Draining {
  readonly numInFlight: number;
  drain(deadlineMs: number): Promise<number>;
}

/** Lets requests in flight finish for so many seconds, and closes the server. */
export async function drainServer(
  server: Draining,
  seconds: number,
  logger: Pick<BaseLogger, 'info' | 'warn'>,
): Promise<void> {
  const { numInFlight } = server;
  if (numInFlight > 0) logger.info(`finishing ${numInFlight} requests, for at most ${seconds} s`);
  const numAborted = await server.drain(seconds * 1000);
  if (numAborted > 0) logger.warn(`${numAborted} requests did not finish in ${seconds} s and were aborted`);
}
