// The border between the engine core and the executor: only plain data crosses it, and however many steps are in
// flight, every request gets the same.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import type { KvMemoryPart } from '../../src/kv-transfer/connector.ts';
import type { AdapterSpec, LoadedAdapter } from '../../src/models/adapters/load-adapter.ts';
import type { EngineInfo, Executor } from '../../src/runner/executor.ts';
import { loadRunner } from '../../src/runner/load-runner.ts';
import type { RowEdits } from '../../src/sampling/logit-rules.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import type { ScheduledStep, StepResult, TileWork } from '../../src/scheduler/scheduled-step.ts';
import type { TokenOutput } from '../../src/scheduler/scheduler.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needsNative } from '../helpers/needs.ts';
import { newRequest } from '../helpers/new-request.ts';

/** Copies all that passes, as a message to another thread would be, and keeps nothing of the original. */
class CloningExecutor implements Executor {
  readonly info: EngineInfo;
  readonly kvParts: readonly KvMemoryPart[];
  readonly draftModel = null;
  readonly adapters = [];
  readonly steps: ScheduledStep[] = [];
  readonly #inner: Executor;

  constructor(inner: Executor) {
    this.#inner = inner;
    this.info = structuredClone(inner.info);
    this.kvParts = inner.kvParts;
  }

  get busySeconds(): number | null {
    return this.#inner.busySeconds;
  }

  see(work: readonly TileWork[]): void {
    this.#inner.see(structuredClone(work));
  }

  forward(step: ScheduledStep, planPoint: number): void {
    this.steps.push(structuredClone(step));
    this.#inner.forward(structuredClone(step), planPoint);
  }

  sample(edits: readonly (RowEdits | null)[]): void {
    this.#inner.sample(structuredClone(edits));
  }

  awaitPlanPoint(): void {
    this.#inner.awaitPlanPoint();
  }

  read(): StepResult {
    return structuredClone(this.#inner.read());
  }

  loadAdapter(spec: AdapterSpec): Generator<void, LoadedAdapter, void> {
    return this.#inner.loadAdapter(structuredClone(spec));
  }

  unloadAdapter(adapterId: number): void {
    this.#inner.unloadAdapter(adapterId);
  }

  close(): void {
    this.#inner.close();
  }
}

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-executor-'));
  await writeTinyModel(folder, { seed: 1 });
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Prompts that are computed in chunks and share a beginning, rules that look back, and more than fits at once. */
const REQUESTS: readonly NewRequest[] = Array.from({ length: 7 }, (_, id) =>
  newRequest({
    id,
    promptTokenIds: Array.from({ length: 20 + 9 * id }, (_, index) => (index * 7) % 251),
    sampling: { temperature: id % 2, seed: id, numLogprobs: id % 3 === 0 ? 2 : null },
    rules: id % 2 === 0 ? { repetitionPenalty: 1.7 } : null,
    numPromptLogprobs: id === 3 ? 1 : null,
    stop: { maxTokens: 24, stopTokenIds: [3 * id, 50 + id] },
  }),
);

function answers(core: EngineCore): Map<number, readonly TokenOutput[]> {
  for (const request of REQUESTS) core.scheduler.add(request);
  const outputs: TokenOutput[] = [];
  while (core.hasUnfinished) {
    core.awaitPlanPoint();
    for (const finished of core.step() ?? []) outputs.push(...finished.outputs);
  }
  const { freeBlocks, numBlocks } = core.stats;
  expect(freeBlocks).toBe(numBlocks);
  // What depends on the time and on the neighbours is left out.
  const plain = outputs.map((output) => ({ ...output, admission: null, numCachedTokens: 0 }));
  return new Map(REQUESTS.map(({ id }) => [id, plain.filter(({ requestId }) => requestId === id)]));
}

async function start(
  device: EngineConfig['device'],
  options: Partial<EngineConfig> = {},
): Promise<[EngineConfig, Executor]> {
  const memory = { kvCacheMemoryBytes: 110_000, maxModelLen: 112 };
  const config = {
    ...ENGINE_DEFAULTS,
    modelPath: folder,
    device,
    ...memory,
    maxNumBatchedTokens: 32,
    ...options,
  };
  return [config, await loadRunner(config)];
}

describe.each(availableBackends)('the executor on %s', (device) => {
  it('gives the same where every step, edit and result is a copy, and is told each block once', async () => {
    const [config, plain] = await start(device);
    const expected = answers(new EngineCore(plain, config));
    plain.close();
    const cloning = new CloningExecutor((await start(device))[1]);
    const core = new EngineCore(cloning, config);
    expect(answers(core)).toEqual(expected);
    expect(core.stats.preemptions).toBeGreaterThan(0);
    core.close();
    const known = new Map<number, Set<number>>();
    for (const { releasedRequestIds, sequences } of cloning.steps) {
      for (const id of releasedRequestIds) known.delete(id);
      for (const { requestId, newBlocks } of sequences) {
        const blocks = known.get(requestId) ?? new Set();
        for (const block of newBlocks.flat()) {
          expect(blocks.has(block)).toBe(false);
          blocks.add(block);
        }
        known.set(requestId, blocks);
      }
    }
  });

  it.each([2, 3])('gives the same with %i steps in flight', async (maxInFlight) => {
    const [config, plain] = await start(device);
    const expected = answers(new EngineCore(plain, config));
    plain.close();
    const core = new EngineCore((await start(device))[1], config, undefined, maxInFlight);
    expect(answers(core)).toEqual(expected);
    core.close();
  });

  it('refuses to sample or to read what was never started', async () => {
    const [, executor] = await start(device);
    expect(() => executor.sample([])).toThrow('no forward pass has been started');
    expect(() => executor.read()).toThrow('no step is in flight');
    executor.close();
  });
});

it('has computed a step once it is read, though nothing of it is sampled', needsNative, async () => {
  const size = { maxModelLen: 512, maxNumBatchedTokens: 500, kvCacheMemoryBytes: 2 ** 22 };
  const [config, executor] = await start('cpu', size);
  const { scheduler } = new EngineCore(executor, config);
  scheduler.add(newRequest({ promptTokenIds: Array.from({ length: 510 }, (_, index) => index % 251) }));
  const step = scheduler.schedule();
  executor.forward(step, 1);
  executor.sample(scheduler.logitEdits(step));
  expect(executor.read().outputs).toEqual([null]);
  const { busySeconds } = executor;
  await setTimeout(50);
  expect(executor.busySeconds).toBe(busySeconds);
  executor.close();
});
