// A rank whose thread ends while steps are computed: where the others notice, and that they notice soon.

import type { Worker } from 'node:worker_threads';
import { expect } from 'vitest';
import type { EngineCore } from '../../src/engine/engine-core.ts';

interface Moment {
  readonly when: string;
  /** Steps before it. */
  readonly numSteps: number;
  /** What rank 0 does first afterwards. */
  readonly finish: (core: EngineCore) => unknown;
}

export const MOMENTS: readonly Moment[] = [
  { when: 'a step is planned', numSteps: 2, finish: (core) => core.step() },
  { when: 'a step is computed', numSteps: 3, finish: (core) => core.awaitPlanPoint() },
  { when: 'its result is awaited', numSteps: 3, finish: (core) => core.executor.read() },
];

/** Ends `thread`, that of rank 1, at the moment; the requests of `core` have far more steps. */
export async function endRank(core: EngineCore, thread: Worker, { numSteps, finish }: Moment): Promise<void> {
  for (let step = 0; step < numSteps; step += 1) core.step();
  await thread.terminate();
  const since = performance.now();
  const goOn = (): never => {
    while (true) {
      finish(core);
      core.step();
    }
  };
  expect(goOn).toThrow(/rank 1/);
  expect(performance.now() - since).toBeLessThan(5000);
}
