// Every supported architecture and kind of rotary embedding against logits that another program computed.

import { afterAll, describe, expect, it } from 'vitest';
import type { Quantization } from '../../src/config/engine-config.ts';
import { loadModel } from '../../src/models/load-model.ts';
import type { Model } from '../../src/models/model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { availableBackends, type Backend, openBackend } from '../helpers/backends.ts';
import { cosine, largestDifference } from '../helpers/compare.ts';
import { needsShared } from '../helpers/needs.ts';
import {
  architectureGoldens,
  type GoldenModel,
  ownGoldens,
  SHARED_MODELS,
  sharedGolden,
} from './golden-cases.ts';
import { ModelSession } from './model-session.ts';

function load(
  golden: GoldenModel,
  backend: Backend,
  dtype: 'float32' | 'bfloat16',
  quantization: Quantization | null = null,
) {
  const ops = openBackend(backend);
  afterAll(() => ops.close());
  const options = { dtype, quantization, maxModelLen: golden.maxModelLen };
  const loading = loadModel(openModelSource(golden.folder), ops, options);
  const session = (model: Model, tokens: number) => new ModelSession(ops, model, tokens);
  return { loading, session };
}

function testGolden(golden: GoldenModel, backend: Backend): void {
  const f32 = load(golden, backend, 'float32');
  const bf16 = load(golden, backend, 'bfloat16');

  it.each(golden.cases)(
    'gives the logits of case $name within 1e-4 in f32',
    async ({ ids, rows, logits }) => {
      const got = f32.session(await f32.loading, ids.length).run(ids, rows);
      expect(largestDifference(got, logits)).toBeLessThan(1e-4);
    },
  );

  it.each(golden.cases)('gives logits close to case $name in bf16', async ({ ids, rows, logits }) => {
    const model = await bf16.loading;
    const got = bf16.session(model, ids.length).run(ids, rows);
    // A token between two experts may get the other one where numbers are rounded.
    expect(cosine(got, logits)).toBeGreaterThan(model.config.experts === null ? 0.999 : 0.99);
  });

  const greedy = golden.cases.filter(({ greedyIds }) => greedyIds.length > 0);
  it.each(greedy)('continues case $name greedily as the golden does', async ({ ids, greedyIds }) => {
    const session = f32.session(await f32.loading, ids.length + greedyIds.length);
    expect(session.greedy(ids, greedyIds.length)).toEqual(greedyIds);
  });

  it.each(greedy)('gives the same bits for case $name in chunks of 7', async ({ ids }) => {
    for (const { loading, session } of [f32, bf16]) {
      const model = await loading;
      const whole = session(model, ids.length).run(ids, 1);
      const chunked = session(model, ids.length);
      let last = whole;
      for (let start = 0; start < ids.length; start += 7) last = chunked.run(ids.slice(start, start + 7), 1);
      expect(last).toEqual(whole);
    }
  });
}

/** The definition of the ops gives the logits; all else follows from it as it does for other models. */
function testDefinition(golden: GoldenModel): void {
  const { loading, session } = load(golden, 'reference', 'float32');
  it.each(golden.cases)('gives the logits of case $name within 1e-4', async ({ ids, rows, logits }) => {
    const got = session(await loading, ids.length).run(ids, rows);
    expect(largestDifference(got, logits)).toBeLessThan(1e-4);
  });
}

/** Weights that are published transposed, or as a part of a tensor, are quantised like all others. */
function testQuantized(golden: GoldenModel): void {
  it.each([
    ['int8', 0.99],
    // A token of a mixture may be given another expert.
    ['fp8', 0.95],
    ['int4', 0.8],
  ] as const)('gives logits near those of the golden in %s', async (quantization, least) => {
    const { loading, session } = load(golden, 'cpu', 'bfloat16', quantization);
    const { ids, rows, logits } = golden.cases.at(-1)!;
    expect(cosine(session(await loading, ids.length).run(ids, rows), logits)).toBeGreaterThan(least);
  });
}

describe.each(availableBackends)('on the %s backend', (backend) => {
  for (const golden of ownGoldens()) {
    describe(golden.name, () => testGolden(golden, backend));
  }

  for (const golden of architectureGoldens()) {
    describe(golden.name, () => {
      if (backend === 'reference') return testDefinition(golden);
      testGolden(golden, backend);
      testQuantized(golden);
    });
  }

  for (const name of SHARED_MODELS) {
    const golden = sharedGolden(name);
    describe(name, needsShared(golden), () => {
      if (golden === null) it('gives the golden logits', () => {});
      else if (backend === 'reference') testDefinition(golden);
      else testGolden(golden, backend);
    });
  }
});
