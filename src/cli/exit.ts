// How a long-running command ends its process whatever its threads do. `process.exit` waits for each of them, and so for ever for
// one that is stuck in native code: on a file system that hangs, in a driver, in a loop.

import { constants } from 'node:os';
import type { Worker } from 'node:worker_threads';
import type { BaseLogger } from 'pino';
import { within } from '../util/within.ts';

/** A thread that computes or reads is ended sooner. */
const THREADS_DEADLINE_MS = 5000;

const threads = new Set<Worker>();

/** Call it before the first thread is started: `exit` knows those that come later. */
export function watchThreads(): void {
  process.on('worker', (worker) => {
    threads.add(worker);
    worker.once('exit', () => threads.delete(worker));
  });
}

/** Ends all threads, and the process with `code`; with SIGKILL where a thread does not end. */
export async function exit(code: number, logger: Pick<BaseLogger, 'error'>): Promise<never> {
  const ending = Promise.all([...threads].map((worker) => worker.terminate())).then(() => {});
  if (await within(THREADS_DEADLINE_MS, ending)) process.exit(code);
  logger.error(
    `${threads.size} threads did not end in ${THREADS_DEADLINE_MS / 1000} s: the process is killed`,
  );
  // No other code may stand for an end by force, which supervisors tell from an orderly one by the signal.
  return endBySignal('SIGKILL');
}

/**
 * For commands that have nothing to finish: SIGINT or SIGTERM ends the process as where nobody listens to it, once what listens for
 * the end of the process has run. The first process of a container would not end at all without a listener.
 */
export function endOnSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      process.on('exit', () => {
        process.removeAllListeners(signal);
        process.kill(process.pid, signal);
      });
      // What the kernel spares ends with what a shell would tell of the signal.
      process.exit(128 + constants.signals[signal]);
    });
  }
}

/** Ends the process at once, as `signal` does where nobody listens to it: shells and supervisors see what they have sent. */
export function endBySignal(signal: NodeJS.Signals): never {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Only the first process of a container gets here: the kernel spares it what it sends to itself.
  process.abort();
}
