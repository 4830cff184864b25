// How a person or a supervisor ends a long-running command: serve and proxy wait for it.

import type { BaseLogger } from 'pino';

const SIGNALS = { SIGINT: 2, SIGTERM: 15 } as const;

/** Ctrl-C under npm comes twice, from the terminal and passed on by npm; so does SIGTERM to a group of processes. */
const ONE_REQUEST_MS = 500;

/** The first SIGTERM or SIGINT asks for an orderly end, a later one ends the process at once. */
export class StopRequest {
  readonly requested: Promise<null>;

  constructor(logger: Pick<BaseLogger, 'info'>) {
    this.requested = new Promise((resolve) => {
      let firstAt: number | null = null;
      for (const [signal, number] of Object.entries(SIGNALS)) {
        process.on(signal, () => {
          if (firstAt !== null) {
            if (performance.now() - firstAt > ONE_REQUEST_MS) process.exit(128 + number);
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
