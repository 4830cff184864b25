// Models with experts, with latent attention and in codes on the CUDA backend, over an emulated driver, against what another program computed.

import { afterAll, describe, expect, it } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { cosine, largestDifference } from '../helpers/compare.ts';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
import { architectureGoldens, goldenInCodes } from './golden-cases.ts';
import { ModelSession } from './model-session.ts';

/** Goldens are of float32: these have the same greedy ids in bfloat16. */
const NAMES = ['gpt-oss', 'qwen2-moe', 'qwen3-moe-sliding'];
const goldens = architectureGoldens().filter(({ name }) => NAMES.includes(name));

describeCuda('models with experts in bfloat16 on a GPU', () => {
  describe.each(goldens)('$name', ({ folder, maxModelLen, cases }) => {
    const ops = openCuda();
    afterAll(() => ops.close());
    const loading = loadModel(openModelSource(folder), ops, {
      dtype: 'bfloat16',
      quantization: null,
      maxModelLen,
    });

    it.each(cases)('gives logits close to case $name, and its greedy ids', async (golden) => {
      const { ids, rows, logits, greedyIds } = golden;
      const model = await loading;
      const session = () => new ModelSession(ops, model, ids.length + greedyIds.length);
      expect(cosine(session().run(ids, rows), logits)).toBeGreaterThan(0.999);
      expect(session().greedy(ids, greedyIds.length)).toEqual(greedyIds);
    });
  });
});

/** Routing by groups and among near experts, latent attention, experts beside shared ones, chunks of tokens and weighed inputs. */
const EXACT = ['deepseek-v2', 'deepseek-v3', 'llama4', 'mixtral', 'phimoe'];

describeCuda('models with experts in float32 on a GPU', () => {
  const ops = openCuda();
  afterAll(() => ops.close());

  it.each(architectureGoldens().filter(({ name }) => EXACT.includes(name)))(
    '$name gives its logits within 1e-4',
    async ({ folder, maxModelLen, cases }) => {
      const model = await loadModel(openModelSource(folder), ops, { dtype: 'float32', maxModelLen });
      const { ids, rows, logits } = cases.at(-1)!;
      expect(largestDifference(new ModelSession(ops, model, ids.length).run(ids, rows), logits)).toBeLessThan(
        1e-4,
      );
    },
  );
});

const IN_CODES = [
  ['mxfp4', 'bf16+mxfp4'],
  ['ternary', 'int8'],
] as const;

describeCuda('models in codes on a GPU', () => {
  const ops = openCuda();
  afterAll(() => ops.close());

  it.each(IN_CODES)('give logits close to those of the original: %s', async (codes, format) => {
    const { folder, cases } = goldenInCodes(codes);
    const model = await loadModel(openModelSource(folder), ops, { dtype: 'auto', maxModelLen: null });
    expect(model.weightFormat).toBe(format);
    for (const { ids, rows, logits } of cases) {
      expect(cosine(new ModelSession(ops, model, ids.length).run(ids, rows), logits)).toBeGreaterThan(0.999);
    }
  });
});
