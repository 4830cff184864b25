// A model that overflows on some text: the request that meets it ends with an error, all others are as they would be
// without it.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { EngineCore } from '../../src/engine/engine-core.ts';
import type { TokenOutput } from '../../src/scheduler/scheduler.ts';
import { OVERFLOWING_TOKEN, writeOverflowingModel } from '../fixtures/overflowing-model.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { type NewRequestParts, newRequest } from '../helpers/new-request.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-broken-'));
  writeOverflowingModel(folder);
});
afterAll(() => rmSync(folder, { recursive: true }));

const SOUND = [5, 9, 20, 31, 8, 40, 51];
const BROKEN_LOGITS = { reason: 'brokenLogits', stopTokenId: null };
const BROKEN = [5, 9, OVERFLOWING_TOKEN, 31, 8];

describe.each(availableBackends)('an engine on %s whose model overflows on a token', (device) => {
  let core: EngineCore;
  beforeEach(async () => {
    // Few blocks: what one request leaves another one gets.
    const memory = { kvCacheMemoryBytes: 2 ** 15, maxModelLen: 64, enablePrefixCaching: false };
    core = await EngineCore.start({ ...ENGINE_DEFAULTS, modelPath: folder, device, ...memory });
  });
  afterEach(() => core.close());

  function run(...requests: NewRequestParts[]): TokenOutput[] {
    for (const [id, parts] of requests.entries())
      core.scheduler.add(newRequest({ id, stop: { maxTokens: 8 }, ...parts }));
    const outputs: TokenOutput[] = [];
    while (core.hasUnfinished) {
      core.awaitPlanPoint();
      outputs.push(...(core.step() ?? []).flatMap((finished) => finished.outputs));
    }
    return outputs;
  }

  const tokensOf = (outputs: readonly TokenOutput[], id: number): number[] =>
    outputs.filter(({ requestId }) => requestId === id).flatMap(({ tokenIds }) => tokenIds);

  it.each([
    ['greedily', { temperature: 0 }],
    ['by chance', { temperature: 1, topK: 5, topP: 0.9 }],
  ])('ends the request that has it, and no other, where it samples %s', (_, sampling) => {
    const sound = { promptTokenIds: SOUND, sampling: { ...sampling, numLogprobs: 2 } };
    const expected = tokensOf(run(sound), 0);
    expect(expected).toHaveLength(8);
    const outputs = run(sound, { promptTokenIds: BROKEN, sampling }, sound);
    expect(tokensOf(outputs, 0)).toEqual(expected);
    expect(tokensOf(outputs, 2)).toEqual(expected);
    const failed = outputs.filter(({ requestId }) => requestId === 1);
    expect(failed).toMatchObject([{ tokenIds: [], finish: { reason: 'brokenLogits' }, logprobs: null }]);
    expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
    expect(core.hasUnfinished).toBe(false);
  });

  it('leaves nothing in its blocks that changes what comes after', () => {
    const expected = tokensOf(run({ promptTokenIds: SOUND }), 0);
    run(...Array.from({ length: 8 }, () => ({ promptTokenIds: [...BROKEN, ...SOUND, ...SOUND] })));
    expect(tokensOf(run({ promptTokenIds: SOUND }), 0)).toEqual(expected);
  });

  it('ends an answer that comes to the token on its way', () => {
    const rules = { allowedTokenIds: Int32Array.of(OVERFLOWING_TOKEN) };
    const outputs = run({ promptTokenIds: SOUND, rules }, { promptTokenIds: SOUND });
    expect(tokensOf(outputs, 0)).toEqual([OVERFLOWING_TOKEN]);
    expect(outputs).toContainEqual(expect.objectContaining({ requestId: 0, finish: BROKEN_LOGITS }));
    expect(tokensOf(outputs, 1)).toHaveLength(8);
  });

  it('takes forbidden tokens, whose logits are infinite, for what they are', () => {
    const biases = Array.from({ length: 100 }, (_, id) => [id, Number.NEGATIVE_INFINITY] as const);
    const outputs = run({ promptTokenIds: SOUND, rules: { biases } });
    expect(outputs).toHaveLength(8);
    expect(outputs.every(({ tokenIds }) => tokenIds.every((id) => id >= 100))).toBe(true);
  });
});
