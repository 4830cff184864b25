// Constrained requests in the engine: their texts are what was asked for, and each gets the same alone and among any others,
// in chunks, after preemptions, with tokens guessed ahead, and whether tokens that must come are sampled or not.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { groupBadWords, type LogitRules } from '../../src/sampling/logit-rules.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import type { TokenOutput } from '../../src/scheduler/scheduler.ts';
import type { Constraint } from '../../src/structured-output/constraint.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { TINY_VOCAB_SIZE } from '../fixtures/tiny-tokenizer.ts';
import { availableBackends } from '../helpers/backends.ts';
import { compiledConstraint, testVocabulary } from '../helpers/compiled-constraint.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { newRequest } from '../helpers/new-request.ts';

const END = 0;
const OTHER_END = 1;
/** Single characters, and pieces of what the constraints below ask for: most texts can be spelled in several ways. */
const PIECES = [
  'ab',
  'abc',
  'cab',
  'yes',
  'no',
  'no, ',
  'never',
  '{"',
  '":',
  '"name',
  'name',
  'ame',
  ' "',
  'true',
  '12',
];
const texts = Array.from({ length: TINY_VOCAB_SIZE }, (_, id) => {
  if (id <= OTHER_END) return '';
  if (id < 2 + 95) return String.fromCharCode(30 + id);
  return PIECES[(id - 97) % PIECES.length]!;
});
const vocabulary = testVocabulary(texts, [END, OTHER_END]);

/** A constraint, and the texts that it allows. */
interface Asked {
  readonly constraint: Constraint;
  readonly whole: RegExp;
}

const ASKED: readonly Asked[] = [
  {
    constraint: { kind: 'literal', text: 'the name is abcabc, never no' },
    whole: /^the name is abcabc, never no$/,
  },
  {
    constraint: {
      kind: 'choice',
      options: ['yes', 'no', 'no, never'].map((text) => ({ kind: 'literal', text })),
    },
    whole: /^(yes|no|no, never)$/,
  },
  { constraint: { kind: 'regex', pattern: '[abc]{3,12}' }, whole: /^[abc]{3,12}$/ },
  { constraint: { kind: 'regex', pattern: '[abc ]{50,70}' }, whole: /^[abc ]{50,70}$/ },
  { constraint: { kind: 'regex', pattern: '(ab|cab)*name(12)+' }, whole: /^(ab|cab)*name(12)+$/ },
  {
    constraint: {
      kind: 'sequence',
      parts: [
        { kind: 'literal', text: '{"name": ' },
        { kind: 'regex', pattern: '"[a-z]{0,8}"|true|12' },
        { kind: 'literal', text: '}' },
      ],
    },
    whole: /^\{"name": ("[a-z]{0,8}"|true|12)\}$/,
  },
];

/** The one with the longest texts. */
const LONG = 3;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-constraints-'));
  writeTinyModel(folder, { seed: 1 });
});
afterAll(() => rmSync(folder, { recursive: true }));

type Answer = readonly Omit<TokenOutput, 'admission' | 'numCachedTokens'>[];

interface Stay {
  readonly from: number;
  readonly until: number | null;
}

function run(core: EngineCore, requests: readonly NewRequest[], stays: readonly Stay[] = []): Answer[] {
  const outputs: TokenOutput[] = [];
  const isLeft = (step: number) => stays.some(({ from }) => from >= step);
  for (let step = 0; step === 0 || isLeft(step) || core.hasUnfinished; step += 1) {
    expect(step).toBeLessThan(10_000);
    for (const [index, one] of requests.entries()) {
      if ((stays[index]?.from ?? 0) === step) core.scheduler.add(one);
      if (stays[index]?.until === step) core.scheduler.abort(one.id);
    }
    core.awaitPlanPoint();
    outputs.push(...(core.step() ?? []).flatMap((finished) => finished.outputs));
  }
  const plain = outputs.map(({ admission: _, numCachedTokens: __, ...output }) => output);
  return requests.map(({ id }) => plain.filter(({ requestId }) => requestId === id));
}

const tokensOf = (answer: Answer): number[] => answer.flatMap(({ tokenIds }) => tokenIds);
const textOf = (answer: Answer): string =>
  tokensOf(answer)
    .map((id) => texts[id])
    .join('');
const finishOf = (answer: Answer) => answer.at(-1)?.finish;

interface Parts {
  /** Index in `ASKED`; null is a request without a constraint. */
  readonly asked: number | null;
  readonly promptLength: number;
  readonly temperature: number;
  readonly seed: number;
  readonly numLogprobs: number | null;
  readonly maxTokens: number;
  readonly rules?: Partial<LogitRules>;
  readonly ignoresEnd?: boolean;
}

function requestOf(id: number, parts: Parts, resumedTokenIds: readonly number[] = []): NewRequest {
  const { asked, promptLength, temperature, seed, numLogprobs, maxTokens, rules = {}, ignoresEnd } = parts;
  const { minTokens = 0 } = rules;
  const ends = ignoresEnd ? {} : { eosTokenId: END, stopTokenIds: [OTHER_END] };
  return newRequest({
    id,
    promptTokenIds: Array.from({ length: promptLength }, (_, index) => 5 + ((index * 7) % 41)),
    resumedTokenIds,
    sampling: { temperature, seed, numLogprobs },
    stop: { ...ends, maxTokens, minTokens },
    rules: { endTokenIds: [END, OTHER_END], ...rules },
    constraint: asked === null ? null : compiledConstraint(ASKED[asked]!.constraint, vocabulary),
  });
}

const PLAIN: Parts = {
  asked: 0,
  promptLength: 5,
  temperature: 0,
  seed: 0,
  numLogprobs: null,
  maxTokens: 60,
};

const anyParts: fc.Arbitrary<Parts> = fc.record({
  asked: fc.oneof({ weight: 2, arbitrary: fc.nat(ASKED.length - 1) }, fc.constant(null)),
  promptLength: fc.integer({ min: 1, max: 60 }),
  temperature: fc.constantFrom(0, 1, 2),
  seed: fc.nat(5),
  numLogprobs: fc.constantFrom(null, null, 2),
  maxTokens: fc.integer({ min: 1, max: 60 }),
  rules: fc.constantFrom<Partial<LogitRules>>(
    {},
    { repetitionPenalty: 1.3, frequencyPenalty: 0.5 },
    { minTokens: 6 },
    { badWords: groupBadWords([[97], [99, 100]]), biases: [[98, -50]] },
  ),
  ignoresEnd: fc.boolean(),
});

describe.each(availableBackends)('an engine on %s with constrained requests', (device) => {
  function start(options: Partial<EngineConfig> = {}): Promise<EngineCore> {
    const memory = { kvCacheMemoryBytes: 4 * 2 ** 20, maxModelLen: 128 };
    return EngineCore.start({ ...ENGINE_DEFAULTS, modelPath: folder, device, ...memory, ...options });
  }

  it('gives any mix of requests what they get alone, and texts as they were asked for', async () => {
    const alone = await start({ enablePrefixCaching: false });
    const bytesOfBlock = Math.ceil((4 * 2 ** 20) / alone.stats.numBlocks);
    const totals = { accepted: 0, complete: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ parts: anyParts, from: fc.nat(8), until: fc.option(fc.nat(30), { freq: 8 }) }), {
          minLength: 1,
          maxLength: 6,
        }),
        fc
          .record({
            maxNumBatchedTokens: fc.integer({ min: 8, max: 80 }),
            maxNumSeqs: fc.integer({ min: 2, max: 5 }),
            numThreads: fc.integer({ min: 1, max: 2 }),
            pipelineParallelSize: fc.constantFrom(1, 1, 2),
          })
          .map((one) => ({ ...one, numThreads: Math.max(one.numThreads, one.pipelineParallelSize) })),
        fc.option(fc.integer({ min: 1, max: 6 })),
        fc.integer({ min: 8, max: 9 }),
        async (shapes, options, numSpeculativeTokens, numBlocks) => {
          const speculative =
            numSpeculativeTokens === null
              ? null
              : { method: 'ngram' as const, numSpeculativeTokens, promptLookupMin: 1, promptLookupMax: 3 };
          const core = await start({ ...options, speculative, kvCacheMemoryBytes: numBlocks * bytesOfBlock });
          const requests = shapes.map(({ parts }, id) => requestOf(id, parts));
          const answers = run(core, requests, shapes);
          totals.accepted += core.stats.speculation?.acceptedTokens ?? 0;
          expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
          core.close();
          for (const [index, one] of requests.entries()) {
            const given = answers[index]!;
            const [expected] = run(alone, [one]);
            const { parts, until } = shapes[index]!;
            expect(given).toEqual(until === null ? expected : expected!.slice(0, given.length));
            if (parts.asked === null || finishOf(expected!)?.reason !== 'stop') continue;
            totals.complete += 1;
            expect(textOf(expected!)).toMatch(ASKED[parts.asked]!.whole);
          }
        },
      ),
      { numRuns: device === 'reference' ? 3 : 30, seed: 5 },
    );
    alone.close();
    expect(totals.complete).toBeGreaterThan(device === 'reference' ? 0 : 15);
    if (device === 'reference') return;
    expect(totals.accepted).toBeGreaterThan(5);
  });

  it('computes a sequence again that gave up its blocks, and gives it the same', async () => {
    const core = await start({ kvCacheMemoryBytes: 110_000, maxNumBatchedTokens: 64 });
    const alone = await start({ enablePrefixCaching: false });
    const requests = [1, 2, 3, 4].map((id) =>
      requestOf(id, { ...PLAIN, asked: LONG, promptLength: 40 + id, temperature: 1, seed: id }),
    );
    const answers = run(core, requests);
    expect(core.stats.preemptions).toBeGreaterThan(0);
    for (const [index, one] of requests.entries()) expect(answers[index]).toEqual(run(alone, [one])[0]);
    core.close();
    alone.close();
  });

  it('takes tokens that must come without a step for each, and they are those that would be sampled', async () => {
    const core = await start();
    for (const [asked] of ASKED.entries()) {
      const parts = { ...PLAIN, asked, temperature: 1, seed: asked };
      // With log-probabilities every token is sampled.
      const [sampled] = run(core, [requestOf(1, { ...parts, numLogprobs: 0 })]);
      const [taken] = run(core, [requestOf(2, parts)]);
      expect(tokensOf(taken!)).toEqual(tokensOf(sampled!));
      expect(finishOf(taken!)?.reason).toBe('stop');
    }
    let numSteps = 0;
    core.scheduler.add(requestOf(3, PLAIN));
    while (core.hasUnfinished) numSteps += (core.step() ?? []).length;
    const [answer] = run(core, [requestOf(4, PLAIN)]);
    expect(textOf(answer!)).toMatch(ASKED[0]!.whole);
    expect(numSteps).toBeLessThan(tokensOf(answer!).length / 2);
    core.close();
  });

  it('ends a complete text with an end token, and one that is too long by its length', async () => {
    const core = await start();
    const [whole] = run(core, [requestOf(1, PLAIN)]);
    const tokens = tokensOf(whole!);
    expect([END, OTHER_END]).toContain(tokens.at(-1));
    for (let maxTokens = 1; maxTokens < tokens.length; maxTokens += 1) {
      const [cut] = run(core, [requestOf(1, { ...PLAIN, maxTokens })]);
      expect(tokensOf(cut!)).toEqual(tokens.slice(0, maxTokens));
      expect(finishOf(cut!)).toEqual({ reason: 'length', stopTokenId: null });
    }
    core.close();
  });

  it('lets min_tokens give way where the text cannot go on, and goes on with end tokens where they are ignored', async () => {
    const core = await start();
    const short = { ...PLAIN, asked: 1, temperature: 1 };
    const [early] = run(core, [requestOf(1, { ...short, rules: { minTokens: 30 } })]);
    expect(textOf(early!)).toMatch(ASKED[1]!.whole);
    expect(finishOf(early!)?.reason).toBe('stop');
    const [endless] = run(core, [requestOf(1, { ...short, ignoresEnd: true, maxTokens: 30 })]);
    expect(textOf(endless!)).toMatch(ASKED[1]!.whole);
    expect(tokensOf(endless!)).toHaveLength(30);
    expect(finishOf(endless!)?.reason).toBe('length');
    core.close();
  });

  it('goes on with the beginning of an answer, and gives the same rest', async () => {
    const core = await start();
    for (const [asked] of ASKED.entries()) {
      const parts = { ...PLAIN, asked, temperature: 1, seed: 7 };
      const [whole] = run(core, [requestOf(1, parts)]);
      const tokens = tokensOf(whole!);
      for (let length = 0; length < tokens.length; length += 1) {
        const [resumed] = run(core, [requestOf(1, parts, tokens.slice(0, length))]);
        expect(tokensOf(resumed!)).toEqual(tokens);
      }
    }
    core.close();
  });

  it('ends a request that nothing allowed can follow with an error, and serves the others', async () => {
    const core = await start();
    const [vowels, none] = [Int32Array.from([texts.indexOf('t')]), Int32Array.from([texts.indexOf('#')])];
    const requests = [
      requestOf(1, { ...PLAIN, rules: { allowedTokenIds: vowels } }),
      requestOf(2, { ...PLAIN, rules: { allowedTokenIds: none } }),
      requestOf(3, PLAIN),
      // The beginning of another answer than this one.
      requestOf(4, PLAIN, [texts.indexOf('x')]),
    ];
    const [stuck, never, whole, wrong] = run(core, requests);
    const nothingAllowed = { reason: 'nothingAllowed', stopTokenId: null };
    expect(textOf(stuck!)).toBe('t');
    for (const failed of [stuck, never, wrong]) expect(finishOf(failed!)).toEqual(nothingAllowed);
    expect(textOf(whole!)).toMatch(ASKED[0]!.whole);
    expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
    core.close();
  });
});
