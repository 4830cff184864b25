// Whether the numbers are right, before how fast they come: logits and greedy texts against what the reference
// implementation computed. The HTTP side of it is in serve.ts, on the same texts.

import { LLM } from '../src/index.ts';
import { loadModel } from '../src/models/load-model.ts';
import { openModelSource } from '../src/models/source/model-source.ts';
import { availableBackends, type Backend, openBackend } from '../test/helpers/backends.ts';
import { cosine, largestDifference } from '../test/helpers/compare.ts';
import { type GoldenModel, ownGoldens, SHARED_MODELS, sharedGolden } from '../test/models/golden-cases.ts';
import { ModelSession } from '../test/models/model-session.ts';
import type { Figure, Section } from './report.ts';

/** The real trained model among the fixtures; null where they are not. */
export const STORIES_260K: GoldenModel | null = sharedGolden('stories260K');

export async function goldenSection(): Promise<Section> {
  const models = [...ownGoldens(), ...SHARED_MODELS.map(sharedGolden).filter((model) => model !== null)];
  const figures: Figure[] = [];
  for (const backend of availableBackends) {
    for (const model of models) figures.push(...(await compareLogits(model, backend)));
  }
  if (STORIES_260K !== null) figures.push(await compareTexts(STORIES_260K));
  return { title: 'Logits and texts against the reference implementation', figures };
}

async function compareLogits(golden: GoldenModel, backend: Backend): Promise<Figure[]> {
  const f32 = await allLogits(golden, backend, 'float32');
  const bf16 = await allLogits(golden, backend, 'bfloat16');
  const differences = golden.cases.map(({ logits }, index) => largestDifference(f32[index]!, logits));
  const cosines = golden.cases.map(({ logits }, index) => cosine(bf16[index]!, logits));
  const name = `${golden.name} on ${backend}`;
  return [
    {
      name: `${name}: largest difference of a logit, f32`,
      value: Math.max(...differences),
      unit: '',
      limit: null,
      goal: '<= 1e-4',
    },
    {
      name: `${name}: 1 - cosine, bf16`,
      value: 1 - Math.min(...cosines),
      unit: '',
      limit: null,
      goal: '<= 1e-3',
    },
  ];
}

async function allLogits(
  golden: GoldenModel,
  backend: Backend,
  dtype: 'float32' | 'bfloat16',
): Promise<Float32Array[]> {
  const ops = openBackend(backend);
  try {
    const model = await loadModel(openModelSource(golden.folder), ops, {
      dtype,
      maxModelLen: golden.maxModelLen,
    });
    return golden.cases.map(({ ids, rows }) => new ModelSession(ops, model, ids.length).run(ids, rows));
  } finally {
    ops.close();
  }
}

async function compareTexts({ folder, cases }: GoldenModel): Promise<Figure> {
  const llm = new LLM({ model: folder });
  const outputs = await llm.generate(
    cases.map(({ ids }) => ({ prompt_token_ids: ids })),
    cases.map(({ greedyIds }) => ({ temperature: 0, max_tokens: greedyIds.length, ignore_eos: true })),
  );
  await llm.close();
  const numEqual = outputs.filter(
    ({ outputs: [output] }, index) => output?.token_ids.join() === cases[index]!.greedyIds.join(),
  ).length;
  return {
    name: 'stories260K through LLM: greedy texts equal to the golden file',
    value: numEqual,
    unit: 'texts',
    limit: cases.length,
    goal: 'all',
  };
}
