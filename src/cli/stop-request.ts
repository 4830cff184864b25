// How a person or a supervisor ends a long-running command: serve and proxy wait for it.

import type { BaseLogger } from 'pino';

const SIGNALS = { SIGINT: 2, SIGTERM: 15 } as const;

/** The first SIGTERM or SIGINT asks for an orderly end, the second one ends the process at once. */
export class StopRequest {
  readonly requested: Promise<null>;

  constructor(logger: Pick<BaseLogger, 'info'>) {
    this.requested = new Promise((resolve) => {
      let hasAsked = false;
      for (const [signal, number] of Object.entries(SIGNALS)) {
        process.on(signal, () => {
          if (hasAsked) process.exit(128 + number);
          hasAsked = true;
          logger.info(`${signal}: shutting down; once more ends at once`);
          resolve(null);
        });
      }
    });
  }
}
