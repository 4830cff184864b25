// Embedding models and rerankers in GGUF, in the names of the format's own package (tools/goldens/gguf_pooling.py): what they make of texts is
// what the folders make that they were written from.

import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import type { EngineCore } from '../../src/engine/engine-core.ts';
import { cosine, toEmbedding, toScore } from '../../src/engine/pooling/vectors.ts';
import { LLM } from '../../src/index.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import { availableBackends } from '../helpers/backends.ts';
import { needsNative } from '../helpers/needs.ts';
import {
  embeddingCases,
  expectOriginalTokens,
  type PoolingCase,
  pairCases,
  poolingCases,
  poolOn,
  startPoolingCore,
} from './pooling-models.ts';

const fileOf = (name: string): string =>
  fileURLToPath(new URL(`../fixtures/gguf-pooling/${name}.gguf`, import.meta.url));

/** The file, and the folder that it was written from. */
const MODELS = [
  ['bert-cls', 'bert-cls'],
  ['bert-cls-fused', 'bert-cls'],
  ['bert-reranker', 'bert-reranker'],
  ['distilbert-mean', 'distilbert-mean'],
  ['xlm-roberta-mean', 'xlm-roberta-mean'],
  ['xlm-roberta-reranker', 'xlm-roberta-reranker'],
  ['nomic-bert-mean', 'nomic-bert-mean'],
  ['modernbert-cls', 'modernbert-cls'],
  ['modernbert-reranker', 'modernbert-reranker'],
  ['embedding-gemma', 'embedding-gemma'],
  ['qwen3-embedding', 'qwen3-embedding'],
  ['qwen3-reranker', 'qwen3-reranker'],
] as const;

/** What files do not say: that the scores of one of them are the numbers of its head. */
const OVERRIDES = {
  'bert-reranker': { sentence_transformers: { activation_fn: 'torch.nn.modules.linear.Identity' } },
};

function startFile(name: string, options: Partial<EngineConfig> = {}): Promise<EngineCore> {
  const hfOverrides = name === 'bert-reranker' ? OVERRIDES[name] : null;
  return startPoolingCore(name, { modelPath: fileOf(name), convert: 'auto', hfOverrides, ...options });
}

/** The vectors or scores of all cases of a folder. */
function resultsOf(core: EngineCore, cases: readonly PoolingCase[]): (Float32Array | number)[] {
  const config = core.executor.info.pooling!;
  const prompts = cases.map((one) => ({
    promptTokenIds: one.ids,
    secondTextStart: 'types' in one && one.types !== null ? one.types.indexOf(1) : null,
  }));
  return poolOn(core, prompts).map((values) =>
    config.task === 'embed' ? toEmbedding(values, config, null) : toScore(values, config),
  );
}

/** Files and folders are read alike whatever computes. */
const DEVICE = availableBackends.find((backend) => backend === 'cpu') ?? 'reference';

describe(`on the ${DEVICE} backend`, () => {
  it.each(MODELS)('%s in GGUF gives the numbers of the folder, bit for bit', async (file, folder) => {
    const options = { device: DEVICE, dtype: 'float32' } as const;
    const cases = poolingCases(folder);
    const expected = await startPoolingCore(folder, options);
    const actual = await startFile(file, options);
    expect(resultsOf(actual, cases)).toEqual(resultsOf(expected, cases));
    expect(cases.length).toBeGreaterThan(3);
    expected.close();
    actual.close();
  });

  it('blocks of 8 bits give vectors next to those of the folder', async () => {
    const cases = poolingCases('bert-cls');
    const expected = await startPoolingCore('bert-cls', { device: DEVICE });
    const actual = await startFile('bert-cls-q8_0', { device: DEVICE });
    expect(actual.executor.info.weightFormat).toMatch(/8/);
    const [close, exact] = [resultsOf(actual, cases), resultsOf(expected, cases)];
    for (const [index, vector] of close.entries()) {
      expect(vector).not.toEqual(exact[index]);
      expect(cosine(vector as Float32Array, exact[index] as Float32Array)).toBeGreaterThan(0.999);
    }
    expected.close();
    actual.close();
  });
});

/** The tokenizers of some folders compose characters first, and otherwise cut words in a way that no release does. */
function composed(text: string, folder: string): string {
  return folder.startsWith('qwen3') || folder === 'embedding-gemma' ? text.normalize('NFC') : text;
}

it.each(MODELS)('texts and pairs of %s in GGUF become the tokens of the original', async (file, folder) => {
  const { tokenizer } = await loadTokenizer(openModelSource(fileOf(file)));
  await expectOriginalTokens(tokenizer, folder, (text) => composed(text, folder));
  await tokenizer.close();
});

describe('through the LLM class', needsNative, () => {
  it('a file makes vectors of texts by what it says of itself', async () => {
    const llm = new LLM({ model: fileOf('bert-cls'), dtype: 'float32' });
    const cases = embeddingCases('bert-cls');
    const vectors = await llm.embed(cases.map(({ text }) => text));
    for (const [index, { values }] of cases.entries()) {
      const { embedding } = vectors[index]!.outputs;
      for (const [i, value] of values.entries()) expect(embedding[i]).toBeCloseTo(value, 4);
    }
    await llm.close();
  });

  it.each(['xlm-roberta-reranker', 'qwen3-reranker'])('%s scores pairs of texts', async (name) => {
    const llm = new LLM({ model: fileOf(name), dtype: 'float32' });
    const cases = pairCases(name).filter(({ pair }) => pair.every((text) => composed(text, name) === text));
    for (const { pair, score } of cases) {
      const [got] = await llm.score(pair[0], pair[1]);
      expect(got!.outputs.score).toBeCloseTo(score, 4);
    }
    expect(cases.length).toBeGreaterThan(2);
    await llm.close();
  });
});
