// Models that ranks share: the bits of one that is whole, whatever its architecture and formats, in any batch.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ConfigError } from '../../src/errors.ts';
import { loadAdapter } from '../../src/models/adapters/load-adapter.ts';
import { RankShare } from '../../src/models/rank-share.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { PackedCache } from '../../src/models/weights/packed-cache.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { TINY_VOCAB_SIZE } from '../fixtures/tiny-tokenizer.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { isas } from '../ops/native-backends.ts';
import { architectureGoldens, type GoldenModel, goldenInCodes } from './golden-cases.ts';
import { MixedBatches } from './mixed-batches.ts';
import { SharedModel, type SharedOptions } from './shared-model.ts';

const newFolder = temporaryFolders();
const fixture = (path: string) => fileURLToPath(new URL(`../fixtures/${path}`, import.meta.url));

const opened = closedAfterwards();

async function load(folder: string, size: number, options: SharedOptions): Promise<SharedModel> {
  return opened(await SharedModel.load(folder, size, options));
}

/** Logits of the last 4 tokens of a prompt, the first of which are computed before. */
function logitsOf(model: SharedModel, ids: readonly number[], adapter?: number): Float32Array {
  const session = model.session(ids.length, adapter);
  session.run(ids.slice(0, 5), 1);
  return session.run(ids.slice(5), 4);
}

const MXFP4 = goldenInCodes('mxfp4');
/** Of which other formats are tried: whole layers, and experts. */
const MANY_FORMATS = ['llama', 'mixtral'];
const goldens = [...architectureGoldens(), MXFP4];
const goldenOf = (name: string): GoldenModel => goldens.find((golden) => golden.name === name)!;
/** The longest prompt. */
const idsOf = ({ cases }: GoldenModel): readonly number[] =>
  cases.map(({ ids }) => ids).reduce((longest, ids) => (ids.length > longest.length ? ids : longest));

function optionsOf({ name, maxModelLen }: GoldenModel): readonly SharedOptions[] {
  if (name === MXFP4.name) return [{ dtype: 'auto', maxModelLen }];
  const others = MANY_FORMATS.includes(name) ? (['int4', 'fp8'] as const) : [];
  return [
    { dtype: 'float32', maxModelLen, quantization: null },
    ...([null, 'int8', ...others] as const).map(
      (quantization) => ({ dtype: 'bfloat16', maxModelLen, quantization }) as const,
    ),
  ];
}

/** The largest degree that the model can be shared by, of two or four; else one. */
function degreeOf(folder: string): number {
  const config = readModelConfig(openModelSource(folder));
  const canShare = (size: number): boolean => {
    try {
      new RankShare({ rank: 0, size }).expectPossible(config);
      return true;
    } catch (error) {
      if (error instanceof ConfigError) return false;
      throw error;
    }
  };
  return [4, 2].find(canShare) ?? 1;
}

const shared = goldens.filter(({ folder }) => degreeOf(folder) > 1);

it('all golden models are shared but those of one head of keys and values, in some layers at least', () => {
  expect(goldens.filter((golden) => !shared.includes(golden)).map(({ name }) => name)).toEqual([
    'gemma-256',
    'gemma4',
  ]);
});

describe.each(shared)('$name over ranks', (golden) => {
  it.each(optionsOf(golden))('has the bits of one: $dtype, $quantization', needsNative, async (options) => {
    const { folder } = golden;
    const expected = logitsOf(await load(folder, 1, options), idsOf(golden));
    expect(logitsOf(await load(folder, degreeOf(folder), options), idsOf(golden))).toEqual(expected);
  });
});

describe.each(isas)('on %s', (isa) => {
  it.each(MANY_FORMATS)('%s has the bits of one', async (name) => {
    const golden = goldenOf(name);
    for (const options of optionsOf(golden)) {
      const models = [1, 2].map((size) => load(golden.folder, size, { ...options, isa }));
      const [expected, actual] = (await Promise.all(models)).map((model) => logitsOf(model, idsOf(golden)));
      expect(actual).toEqual(expected);
    }
  });
});

const ofAdapter = z.object({ base: z.string() });

/** Those of golden models that are shared. */
const adapters = readdirSync(fixture('adapters')).flatMap((name) => {
  const path = fixture(`adapters/${name}`);
  const { base } = ofAdapter.parse(JSON.parse(readFileSync(join(path, 'golden.json'), 'utf8')));
  const golden = shared.find((one) => one.name === base);
  return golden === undefined ? [] : [{ name, path, golden }];
});

describe('a shared model', () => {
  it.each(['gpt-oss-mxfp4', 'deepseek-v2', 'deepseek-v3-apart', 'gpt-neox', 'gpt2', 'chatglm'])(
    'of a GGUF file has the bits of one: %s',
    needsNative,
    async (name) => {
      const path = fixture(`gguf/${name}.gguf`);
      const options = { dtype: 'auto', maxModelLen: 64 } as const;
      const ids = Array.from({ length: 24 }, (_, i) => 3 + ((i * 37) % 90));
      const expected = logitsOf(await load(path, 1, options), ids);
      expect(logitsOf(await load(path, degreeOf(path), options), ids)).toEqual(expected);
    },
  );

  it.each(adapters)('takes adapters: $name', needsNative, async ({ path, golden }) => {
    for (const options of optionsOf(golden)) {
      const results = [];
      for (const size of [1, 2]) {
        const model = await load(golden.folder, size, options);
        const loaded = model.ranks.map((rank) => {
          const loading = loadAdapter({ id: 5, path, maxRank: 32 }, rank.model);
          let part = loading.next();
          while (part.done !== true) part = loading.next();
          return part.value;
        });
        const digests = new Set(loaded.map(({ digest }) => digest));
        results.push({
          logits: logitsOf(model, idsOf(golden), 5),
          plain: logitsOf(model, idsOf(golden)),
          digests,
        });
      }
      const [alone, ranks] = results;
      expect(ranks).toEqual(alone);
      expect(ranks!.logits).not.toEqual(ranks!.plain);
    }
  });

  it('comes from the packed cache, an entry a rank', needsNative, async () => {
    const cache = newFolder();
    const golden = goldenOf('llama');
    const loadCached = async () => {
      const caches: PackedCache[] = [];
      const options: SharedOptions = {
        dtype: 'bfloat16',
        optionsOf: (ops) => {
          const packedCache = new PackedCache(
            { folder: cache, maxBytes: 2 ** 30 },
            ops.packedWeights!,
            expect.fail,
          );
          caches.push(packedCache);
          return { packedCache };
        },
      };
      const model = await load(golden.folder, 2, options);
      await Promise.all(caches.map((one) => one.keep()));
      return { areCached: caches.map((one) => one.hasAllWeights), logits: logitsOf(model, idsOf(golden)) };
    };
    const first = await loadCached();
    expect(first.areCached).toEqual([false, false]);
    expect(readdirSync(cache).length).toBe(2);
    expect(await loadCached()).toEqual({ areCached: [true, true], logits: first.logits });
  });

  it('has the bits of one over 8 ranks, with sizes that are not shared evenly', needsNative, async () => {
    const folder = newFolder();
    const heads = { num_attention_heads: 8, num_key_value_heads: 8, head_dim: 16 };
    writeTinyModel(folder, { seed: 8, config: { ...heads, hidden_size: 72, intermediate_size: 150 } });
    for (const dtype of ['float32', 'bfloat16'] as const) {
      const ids = Array.from({ length: 40 }, (_, i) => (i * 29) % TINY_VOCAB_SIZE);
      const expected = logitsOf(await load(folder, 1, { dtype }), ids);
      expect(logitsOf(await load(folder, 8, { dtype }), ids)).toEqual(expected);
    }
  });

  it.each(MANY_FORMATS)(
    'gives a sequence the same bits in any batch and any chunks: %s',
    needsNative,
    async (name) => {
      const { folder } = goldenOf(name);
      const [alone, ranks] = [
        await load(folder, 1, { dtype: 'bfloat16' }),
        await load(folder, 2, { dtype: 'bfloat16' }),
      ];
      const vocab = alone.ranks[0]!.model.config.vocabSize;
      const lengths = fc.array(fc.integer({ min: 1, max: 70 }), { minLength: 1, maxLength: 5 });
      const chunks = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 });
      fc.assert(
        fc.property(lengths, chunks, fc.integer({ min: 1, max: 1000 }), (sizes, steps, seed) => {
          const prompts = sizes.map((size, i) =>
            Array.from({ length: size }, (_, at) => (seed * (at + 3) * (i + 1)) % vocab),
          );
          const expected = prompts.map((ids) => alone.session(ids.length).run(ids, 1));
          expect(new MixedBatches(ranks, prompts).run(steps)).toEqual(expected);
        }),
        { numRuns: 25 },
      );
    },
  );
});
