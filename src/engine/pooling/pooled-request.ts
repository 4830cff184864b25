// One sequence on its way through a pooling model, as the main thread sees it: sent when it has a place, answered once.

import { ModelOutputError } from '../../errors.ts';
import type { NewRequest } from '../../scheduler/request.ts';
import type { EngineClient, RequestListener } from '../engine-client.ts';
import type { SampleTimes } from '../sample-times.ts';
import type { SampleWindow } from '../sample-window.ts';

interface PooledParts {
  readonly request: NewRequest;
  readonly times: SampleTimes;
  readonly window: SampleWindow;
  /** Aborting it gives up the place, and what the engine holds of the request. */
  readonly signal: AbortSignal | undefined;
}

/**
 * @returns the model's numbers for the sequence.
 * @throws ModelOutputError where they are not finite, EngineDeadError when the engine ends before, the reason of `signal`.
 */
export function runPooled(client: EngineClient, parts: PooledParts): Promise<Float32Array> {
  const { request, times, window, signal } = parts;
  return new Promise((resolve, reject) => {
    let leave = (): void => {};
    let isSettled = false;
    const settle = (): void => {
      isSettled = true;
      signal?.removeEventListener('abort', withdraw);
      leave();
    };
    const fail = (error: Error): void => {
      times.end('error');
      settle();
      reject(error);
    };
    const listener: RequestListener = {
      request,
      onSent: () => times.sent(),
      onOutput({ pooled, admission }, at) {
        if (pooled === undefined) return fail(brokenNumbers(request));
        times.output(at, 0, admission);
        times.end('stop');
        settle();
        resolve(pooled);
      },
      onDeath: fail,
      onWithdrawn: () => times.end('abort'),
    };
    const withdraw = (): void => {
      client.abort([request]);
      listener.onWithdrawn();
      settle();
      reject(signal?.reason);
    };
    if (signal?.aborted) return withdraw();
    signal?.addEventListener('abort', withdraw, { once: true });
    leave = window.enter(() => {
      // Sequences of one request end one after the other: a place that one gives up is of no use to the next.
      if (!signal?.aborted) client.add([listener]);
    });
    // A dead engine says so at once.
    if (isSettled) leave();
  });
}

function brokenNumbers({ promptTokenIds }: NewRequest): ModelOutputError {
  return new ModelOutputError(
    `the model computed NaN or infinite numbers for a text of ${promptTokenIds.length} tokens: they grow too large on this text ` +
      '(--dtype float32 may help, and bfloat16 where it computes in float16), or its weights are damaged',
  );
}
