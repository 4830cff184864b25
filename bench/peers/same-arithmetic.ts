// Whether both engines compute the same model: a comparison of speed means nothing otherwise. In f32, where rounding does not decide.

import { join } from 'node:path';
import { writeTinyModel } from '../../test/fixtures/tiny-model.ts';
import { TINY_VOCAB_SIZE } from '../../test/fixtures/tiny-tokenizer.ts';
import { complete, randomPrompt } from './client.ts';
import { writeGgufModel } from './gguf-model.ts';
import { startPeer, startSvc } from './servers.ts';

const NUM_PROMPTS = 32;
const NUM_TOKENS = 8;
const SEATS = { numSeqs: NUM_PROMPTS, contextSize: 256 };

/**
 * Greedy continuations of many prompts by both, which a tiny random model makes depend on all of a prompt.
 * @throws Error where they differ.
 */
export async function expectSameArithmetic(folder: string): Promise<string> {
  const [checkpoint, gguf] = [join(folder, 'tiny'), join(folder, 'tiny.gguf')];
  writeTinyModel(checkpoint, { architecture: 'Qwen2ForCausalLM', dtype: 'f32', tokenizer: false });
  writeGgufModel(checkpoint, gguf, 'F32');
  const svc = await startSvc(checkpoint, SEATS, []);
  const peer = await startPeer(gguf, SEATS);
  try {
    const [ours, theirs] = [await continuations(svc.url), await continuations(peer.url)];
    const numEqual = ours.filter((text, i) => text === theirs[i]).length;
    const numDifferent = new Set(ours).size;
    if (numEqual < NUM_PROMPTS || numDifferent < NUM_PROMPTS / 2) {
      throw new Error(
        `svc and the peer continue ${numEqual} of ${NUM_PROMPTS} prompts alike, svc in ${numDifferent} ways: they do not ` +
          'compute the same model, or it tells nothing',
      );
    }
    return `The same greedy continuations of all ${NUM_PROMPTS} random prompts by both engines, on a tiny f32 model (${numDifferent} different ones).`;
  } finally {
    await Promise.all([svc.stop(), peer.stop()]);
  }
}

function continuations(url: string): Promise<string[]> {
  return Promise.all(
    Array.from({ length: NUM_PROMPTS }, async (_, i) => {
      const { tokenIds } = await complete(url, randomPrompt(8 + 2 * i, i, TINY_VOCAB_SIZE), NUM_TOKENS);
      return tokenIds.join();
    }),
  );
}
