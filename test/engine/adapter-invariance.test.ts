// What a request gets back depends on the request and its adapter alone, whatever adapters are beside it.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CpuIsa } from '../../src/config/cpu-isa.ts';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { adapterKeys } from '../../src/kv-cache/prefix-hash.ts';
import { probeNative } from '../../src/native/native.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { type Answer, generate } from '../helpers/generate.ts';
import { newRequest } from '../helpers/new-request.ts';

const PATHS: readonly ('reference' | CpuIsa)[] = ['reference', ...(probeNative()?.instructionSets() ?? [])];
const FORMATS = [
  { name: 'float32', dtype: 'float32', quantization: null },
  { name: 'bfloat16', dtype: 'bfloat16', quantization: null },
  { name: 'int8', dtype: 'auto', quantization: 'int8' },
  { name: 'int4', dtype: 'auto', quantization: 'int4' },
] as const;
const RANKS = [4, 16, 33];
const VOCAB = 256;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-adapters-'));
  writeTinyModel(join(folder, 'model'), { seed: 1 });
  for (const [id, rank] of RANKS.entries()) writeTinyAdapter(join(folder, `${id}`), { seed: id + 1, rank });
});
afterAll(() => rmSync(folder, { recursive: true }));

function start(
  path: 'reference' | CpuIsa,
  format: (typeof FORMATS)[number],
  options: Partial<EngineConfig> = {},
): Promise<EngineCore> {
  const { dtype, quantization } = format;
  const modules = RANKS.map((_, id) => ({ name: `${id}`, path: join(folder, `${id}`), baseModelName: null }));
  return EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath: join(folder, 'model'),
    kvCacheMemoryBytes: 8 * 2 ** 20,
    dtype,
    quantization,
    lora: { modules, maxLoras: 8, maxLoraRank: 64 },
    ...(path === 'reference' ? { device: 'reference' } : { device: 'cpu', cpuIsa: path }),
    ...options,
  });
}

interface Parts {
  readonly adapter: number | null;
  readonly text: number;
  readonly promptLength: number;
  readonly temperature: number;
}

/** Prompts often begin alike: adapters must not share their blocks. */
const requestParts = fc.record({
  adapter: fc.constantFrom(null, 0, 1, 2),
  text: fc.nat(1),
  promptLength: fc.integer({ min: 1, max: 60 }),
  temperature: fc.constantFrom(0, 1),
});

function requestOf(
  core: EngineCore,
  id: number,
  { adapter, text, promptLength, temperature }: Parts,
): NewRequest {
  return newRequest({
    id,
    promptTokenIds: Array.from({ length: promptLength }, (_, index) => (text * 131 + index * 17) % VOCAB),
    adapterId: adapter,
    extraKeys: adapter === null ? [] : adapterKeys(core.executor.adapters[adapter]!.digest),
    sampling: { temperature, seed: 3, numLogprobs: 2 },
    stop: { maxTokens: 6 },
  });
}

const ONE: Parts = { adapter: 0, text: 0, promptLength: 40, temperature: 0 };
const answerOf = (core: EngineCore, parts: Parts): Answer =>
  generate(core, [requestOf(core, 0, parts)]).get(0)!;

describe.each(PATHS)('an answer with an adapter, on %s', (path) => {
  it.each(FORMATS)('has the same bytes alone and among others, in $name', async (format) => {
    // Little memory, small steps: chunks, preemption and prefix hits all happen.
    const crowded = await start(path, format, {
      kvCacheMemoryBytes: 640 * 1024,
      maxModelLen: 80,
      maxNumBatchedTokens: 23,
      maxNumSeqs: 6,
    });
    const alone = await start(path, format, { enablePrefixCaching: false, numThreads: 1 });
    const known = new Map<string, Answer>();
    const expected = (parts: Parts): Answer => {
      const key = JSON.stringify(parts);
      const answer = known.get(key) ?? answerOf(alone, parts);
      known.set(key, answer);
      return answer;
    };
    fc.assert(
      fc.property(
        fc.array(requestParts, { minLength: 2, maxLength: 9 }),
        fc.array(fc.nat(6)),
        (all, arrivals) => {
          const requests = all.map((parts, id) => requestOf(crowded, id, parts));
          const answers = generate(crowded, requests, arrivals.slice(0, all.length));
          for (const [id, parts] of all.entries()) expect(answers.get(id)).toEqual(expected(parts));
        },
      ),
      { numRuns: path === 'reference' ? 2 : 8 },
    );
    for (const core of [crowded, alone]) core.close();
  });
});

describe('adapters of an engine', () => {
  const path = PATHS[1] ?? 'reference';

  it('answer each in its own way', async () => {
    const core = await start(path, FORMATS[0]);
    const answers = [null, 0, 1, 2].map((adapter) => answerOf(core, { ...ONE, adapter }).numbers.join());
    expect(new Set(answers).size).toBe(4);
    core.close();
  });

  it('share no prefix with each other or with the model, and one with themselves', async () => {
    const core = await start(path, FORMATS[0]);
    for (const adapter of [null, 0, 1, null, 0, 1]) {
      const before = core.stats.prefixCacheHits;
      answerOf(core, { ...ONE, adapter });
      const isFirst = before === 0 && adapter !== null;
      const hits = core.stats.prefixCacheHits - before;
      if (isFirst) expect(hits).toBe(0);
    }
    // Two whole blocks of 40 tokens, each found once by the second request of each.
    expect(core.stats.prefixCacheHits).toBe(3 * 32);
    core.close();
  });

  it('come and go between the steps of others, whose answers stay as they are', async () => {
    const core = await start(path, FORMATS[0]);
    const expected = answerOf(core, { ...ONE, adapter: 1, promptLength: 50 });
    core.scheduler.resetPrefixCache();
    const loaded: string[] = [];
    const spec = { id: 7, path: join(folder, '2'), maxRank: 64 };
    core.addAdapter(spec, {
      onLoaded: ({ digest }) => loaded.push(digest),
      onRefused: (error) => expect.fail(String(error)),
    });
    core.scheduler.add(requestOf(core, 1, { ...ONE, adapter: 1, promptLength: 50 }));
    const numbers: number[] = [];
    for (let turn = 0; core.hasUnfinished || loaded.length === 0; turn += 1) {
      const isLoading = core.tendAdapters();
      if (isLoading && turn === 0) expect(loaded).toEqual([]);
      const outputs = core.hasUnfinished ? (core.step() ?? []).flatMap((step) => step.outputs) : [];
      numbers.push(...outputs.flatMap(({ tokenIds }) => tokenIds));
    }
    expect(numbers).toEqual(expected.tokenIds);
    expect(loaded).toEqual([core.executor.adapters[2]!.digest]);
    const again = { ...requestOf(core, 2, { ...ONE, adapter: 2 }), adapterId: 7 };
    expect(generate(core, [again]).get(2)).toEqual(answerOf(core, { ...ONE, adapter: 2 }));
    core.executor.unloadAdapter(7);
    core.close();
  });

  it('stay until the last sequence that names them has ended', async () => {
    const core = await start(path, FORMATS[0]);
    const request = requestOf(core, 1, { ...ONE, adapter: 1 });
    const expected = generate(core, [request]).get(1);
    core.scheduler.resetPrefixCache();
    core.scheduler.add({ ...request, id: 2 });
    core.step();
    core.retireAdapter(1);
    const tokens: number[] = [];
    while (core.hasUnfinished) {
      core.tendAdapters();
      for (const { outputs } of core.step() ?? [])
        tokens.push(...outputs.flatMap(({ tokenIds }) => tokenIds));
    }
    expect(tokens).toEqual(expected!.tokenIds);
    core.tendAdapters();
    const gone = generate(core, [{ ...request, id: 3, extraKeys: [] }]).get(3);
    const plain = generate(core, [{ ...request, id: 4, adapterId: null, extraKeys: [] }]).get(4);
    expect(gone).toEqual(plain);
    core.close();
  });

  it('are refused one by one: what follows is loaded all the same', async () => {
    const core = await start(path, FORMATS[0]);
    const told: string[] = [];
    for (const [id, name] of [
      [8, 'nowhere'],
      [9, '0'],
    ] as const) {
      core.addAdapter(
        { id, path: join(folder, name), maxRank: 64 },
        { onLoaded: () => told.push(`${id} loaded`), onRefused: (error) => told.push(String(error)) },
      );
    }
    while (core.tendAdapters());
    expect(told).toEqual([expect.stringMatching(/ModelLoadError: .*nowhere is no folder/), '9 loaded']);
    core.close();
  });
});
