// Signals that end many calls at once, and calls that reject as soon as their signal is aborted.

import { setMaxListeners } from 'node:events';

/** For any number of listeners: Node would warn of more than ten. */
export function sharedAbortController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

/**
 * Runs `work` with a signal that is aborted when `outer` is, and when a part of the work fails, so that no part goes on.
 * @throws what the work throws, or the reason of `outer` as soon as it is aborted.
 */
export async function abortable<T>(
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  outer?.throwIfAborted();
  const inner = sharedAbortController();
  const aborted = new Promise<never>((_, reject) => {
    inner.signal.addEventListener('abort', () => reject(inner.signal.reason), { once: true });
  });
  const abort = (): void => inner.abort(outer?.reason);
  // One signal may end any number of calls.
  if (outer !== undefined) setMaxListeners(0, outer);
  outer?.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work(inner.signal), aborted]);
  } catch (error) {
    inner.abort(error);
    throw error;
  } finally {
    outer?.removeEventListener('abort', abort);
  }
}
