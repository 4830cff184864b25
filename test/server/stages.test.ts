// Requests of every kind to a server whose model is in pipeline stages: the answers are those of a server whose model is not.

import { describe, expect, it } from 'vitest';
import { answersOf, mixedRequests } from '../disagg/mixed-requests.ts';
import { needsNative } from '../helpers/needs.ts';
import { startTestServer } from './test-server.ts';

const REQUESTS = mixedRequests(200, 11);
const AT_ONCE = 16;

/** Little memory and small steps: prompts are cut, and sequences preempted. */
async function answersWith(layout: {
  pipelineParallelSize: number;
  tensorParallelSize?: 2;
}): Promise<unknown[]> {
  const { pipelineParallelSize, tensorParallelSize = 1 } = layout;
  const numThreads = pipelineParallelSize * tensorParallelSize;
  const engine = { pipelineParallelSize, tensorParallelSize, numThreads, device: 'cpu' } as const;
  const server = await startTestServer({
    engine: { ...engine, maxNumBatchedTokens: 48, kvCacheMemoryBytes: 2 ** 20 },
  });
  try {
    return await answersOf(server.url, REQUESTS, AT_ONCE);
  } finally {
    await server.close();
  }
}

describe('200 mixed requests', needsNative, () => {
  it('get the same bytes of one stage, of two, of three, and of two of two ranks', async () => {
    const expected = await answersWith({ pipelineParallelSize: 1 });
    for (const layout of [
      { pipelineParallelSize: 2 },
      { pipelineParallelSize: 3 },
      { pipelineParallelSize: 2, tensorParallelSize: 2 } as const,
    ]) {
      for (const [index, answer] of (await answersWith(layout)).entries()) {
        expect(answer, JSON.stringify(REQUESTS[index])).toEqual(expected[index]);
      }
    }
  });
});
