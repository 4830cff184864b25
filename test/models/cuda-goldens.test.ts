// The golden models on the CUDA backend, over an emulated driver and its real kernels.

import { afterAll, expect, it } from 'vitest';
import type { Quantization } from '../../src/config/engine-config.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { cosine, largestDifference } from '../helpers/compare.ts';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
import { architectureGoldens, type GoldenModel, ownGoldens } from './golden-cases.ts';
import { ModelSession } from './model-session.ts';

/** Some that differ most: the emulation is slow, and ops have tests of their own. */
const NAMES = [
  'apertus',
  'cohere2',
  'falcon-h1-norm',
  'gemma2',
  'gemma3n',
  'gemma4',
  'gemma4-moe',
  'gemma4-small',
  'gpt2',
  'granite-hybrid-mamba',
  'lfm2',
  'llama-yarn',
  'nemotron-h-latent',
  'olmo',
  'phi',
  'qwen3',
  'qwen3-next',
  'qwen3.5',
];

describeCuda('on a GPU', () => {
  const [cuda, inF16] = [openCuda(), openCuda(false, undefined, 'f16')];
  afterAll(() => {
    cuda.close();
    inF16.close();
  });

  async function logits(
    { folder, maxModelLen, cases }: GoldenModel,
    dtype: 'float32' | 'bfloat16' | 'float16',
    quantization: Quantization | null = null,
  ) {
    const { ids, rows, logits: expected } = cases.at(-1)!;
    const ops = dtype === 'float16' ? inF16 : cuda;
    const model = await loadModel(openModelSource(folder), ops, { dtype, quantization, maxModelLen });
    return { actual: new ModelSession(ops, model, ids.length).run(ids, rows), expected };
  }

  const goldens = [...ownGoldens(), ...architectureGoldens()].filter(({ name }) => NAMES.includes(name));

  it.each(goldens)('$name gives its logits within 1e-4 in f32', async (golden) => {
    const { actual, expected } = await logits(golden, 'float32');
    expect(largestDifference(actual, expected)).toBeLessThan(1e-4);
  });

  it.each(goldens)('$name gives logits nearer to its own in f16 than in bf16', async (golden) => {
    const differences = [];
    for (const dtype of ['float16', 'bfloat16'] as const) {
      const { actual, expected } = await logits(golden, dtype);
      differences.push(1 - cosine(actual, expected));
    }
    const [inF16, inBf16] = differences;
    expect(inF16).toBeLessThan(inBf16! / 4);
  });

  it.each([
    ['int8', 0.99],
    ['fp8', 0.95],
    ['int4', 0.8],
  ] as const)('models give logits near those of the goldens in %s', async (quantization, least) => {
    for (const golden of goldens) {
      const { actual, expected } = await logits(golden, 'bfloat16', quantization);
      expect(cosine(actual, expected)).toBeGreaterThan(least);
    }
  });
});
