// Laws are asserted at every step of thousands of runs, by node's assert: an `expect` takes longer than the step.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BlockGroups, mostBlocks } from '../../src/kv-cache/block-groups.ts';
import { saltKeys } from '../../src/kv-cache/prefix-hash.ts';
import type { KvTransferEvent } from '../../src/kv-transfer/connector.ts';
import { RequestStates } from '../../src/runner/request-states.ts';
import { readStep } from '../../src/runner/step-result.ts';
import { groupBadWords, type LogitRules } from '../../src/sampling/logit-rules.ts';
import type { Logprobs } from '../../src/sampling/logprobs.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import {
  numSampledRows,
  PENDING_TOKEN,
  type ScheduledSequence,
  type ScheduledStep,
  type StepResult,
} from '../../src/scheduler/scheduled-step.ts';
import { Scheduler, type SchedulerConfig, type TokenOutput } from '../../src/scheduler/scheduler.ts';
import { newRequest } from '../helpers/new-request.ts';

const CONFIG: SchedulerConfig = {
  maxNumSeqs: 4,
  maxNumBatchedTokens: 32,
  numBlocks: 64,
  blockSize: 16,
  enablePrefixCaching: true,
  windows: [null],
  speculative: null,
};

const anyLengths = {
  promptLength: fc.integer({ min: 1, max: 60 }),
  maxTokens: fc.integer({ min: 1, max: 30 }),
};

const LONGEST = 90;

/** Small enough that slots, budget and blocks run out; one request of the longest length fits. */
const anyConfig: fc.Arbitrary<SchedulerConfig> = fc
  .record({
    maxNumSeqs: fc.integer({ min: 1, max: 6 }),
    maxNumBatchedTokens: fc.integer({ min: 6, max: 50 }),
    numBlocks: fc.integer({ min: 0, max: 14 }),
    blockSize: fc.constant(16),
    enablePrefixCaching: fc.boolean(),
    windows: fc.constantFrom([null], [20], [null, 20], [null, null, 5, 5, 5], [40, 20, 1]),
    shortContext: fc.constantFrom(null, 20, 48),
    speculative: fc.constantFrom(null, {
      method: 'ngram' as const,
      numSpeculativeTokens: 3,
      promptLookupMax: 2,
      promptLookupMin: 1,
    }),
  })
  .map((config) => {
    const numBlocks = mostBlocks(config, LONGEST, config.maxNumBatchedTokens) + config.numBlocks;
    return { ...config, numBlocks };
  });

function request(id: number, promptLength: number, maxTokens: number): NewRequest {
  const promptTokenIds = Array.from({ length: promptLength }, (_, index) => ((id % 3) * 31 + index) % 97);
  return newRequest({ id, promptTokenIds, stop: { maxTokens } });
}

/**
 * An executor without a model: the token that it samples is a function of what the step computes, as logits are. Some
 * answers soon repeat themselves, others never do.
 */
class FakeModel {
  readonly requests = new RequestStates();
  readonly #newest = new Map<number, number>();
  /** By block: whether it holds keys of a long context. */
  readonly #long = new Map<number, boolean>();

  run(step: ScheduledStep): StepResult {
    this.requests.apply(step);
    const tokens = step.sequences.flatMap((sequence) => this.#sample(sequence));
    const result = readStep({
      step,
      planPoint: { read: () => {} },
      sampled: {
        tokens: { read: () => Int32Array.from(tokens) },
        logprobs: { read: () => tokens.map(() => null) },
      },
      knownLogprobs: { read: () => resultOf(step, () => 0) },
    });
    for (const [index, { requestId }] of step.sequences.entries()) {
      const output = result.outputs[index]!;
      if (output?.kind === 'tokens') this.#newest.set(requestId, output.tokenIds.at(-1)!);
    }
    return result;
  }

  /** What a sequence reads was computed as it is: as a short context, or as a long one. */
  checkContext(
    { requestId, firstPosition, isLong }: ScheduledSequence,
    { blockSize, windows }: BlockGroups,
  ): void {
    for (const [group, blocks] of this.requests.tablesOf(requestId).entries()) {
      const window = windows[group] ?? null;
      const oldest = window === null ? 0 : Math.max(0, firstPosition - window + 1);
      for (const [index, block] of blocks.entries()) {
        if ((index + 1) * blockSize > firstPosition) this.#long.set(block, isLong);
        else if ((index + 1) * blockSize > oldest) assert.equal(this.#long.get(block) ?? isLong, isLong);
      }
    }
  }

  #sample(sequence: ScheduledSequence): number[] {
    const { requestId, tokenIds, firstPosition } = sequence;
    const count = numSampledRows(sequence);
    return tokenIds.slice(tokenIds.length - count).map((tokenId, index) => {
      const known = tokenId === PENDING_TOKEN ? this.#newest.get(requestId)! : tokenId;
      const position = firstPosition + tokenIds.length - count + index + 1;
      return requestId % 2 === 0 ? (known * 7 + position) % 97 : (known * 7 + (position >> 4)) % 5;
    });
  }
}

function resultOf(step: ScheduledStep, tokenOf: (sequence: ScheduledSequence) => number): StepResult {
  return {
    outputs: step.sequences.map((one) =>
      one.sampling === null ? null : { kind: 'tokens', tokenIds: [tokenOf(one)], logprobs: null },
    ),
    promptLogprobs: step.sequences.map(() => []),
    resumedLogprobs: step.sequences.map(() => []),
  };
}

/** One step in which every sequence that samples gets token 5. */
function stepWithFive(scheduler: Scheduler): TokenOutput[] {
  const step = scheduler.schedule();
  return scheduler.update(
    step,
    resultOf(step, () => 5),
  );
}

/** Steps until nothing is left; gives each request's output tokens. */
function runToEnd(scheduler: Scheduler, config: SchedulerConfig): Map<number, number[]> {
  const model = new FakeModel();
  const outputs = new Map<number, number[]>();
  for (let numSteps = 0; scheduler.hasUnfinished; numSteps += 1) {
    assert(numSteps < 10_000);
    const step = scheduler.schedule();
    const result = model.run(step);
    checkStep(step, model, scheduler, config);
    for (const output of scheduler.update(step, result)) {
      outputs.set(output.requestId, [...(outputs.get(output.requestId) ?? []), ...output.tokenIds]);
    }
  }
  return outputs;
}

interface InFlightStep {
  readonly step: ScheduledStep;
  readonly result: StepResult;
  /** By block: which requests it is in the tables of. */
  readonly owners: ReadonlyMap<number, readonly number[]>;
}

interface Hooks {
  /** Called before each step is planned. @returns whether something comes later. */
  readonly before: (numSteps: number) => boolean;
  /** Gets each step that was planned, those in flight meanwhile, and the outputs so far. */
  readonly planned?: (
    step: ScheduledStep,
    inFlight: readonly InFlightStep[],
    outputs: ReadonlyMap<number, readonly number[]>,
  ) => void;
}

/** The same with up to `maxInFlight` steps in flight while one is planned. */
function runPipelined(
  scheduler: Scheduler,
  config: SchedulerConfig,
  maxInFlight: number,
  { before, planned }: Hooks,
): Map<number, number[]> {
  const model = new FakeModel();
  const outputs = new Map<number, number[]>();
  const inFlight: InFlightStep[] = [];
  let comesMore = true;
  for (let numSteps = 0; scheduler.hasUnfinished || inFlight.length > 0 || comesMore; numSteps += 1) {
    assert(numSteps < 10_000);
    comesMore = before(numSteps);
    const step = scheduler.schedule();
    planned?.(step, inFlight, outputs);
    const isEmpty = step.sequences.length === 0;
    if (!isEmpty) {
      inFlight.push(launch(step, model, inFlight, config));
      checkStep(step, model, scheduler, config);
    }
    if (!isEmpty && inFlight.length <= maxInFlight) continue;
    const finished = inFlight.shift();
    const given = finished === undefined ? [] : scheduler.update(finished.step, finished.result);
    for (const { requestId, tokenIds } of given) {
      outputs.set(requestId, [...(outputs.get(requestId) ?? []), ...tokenIds]);
    }
  }
  return outputs;
}

function launch(
  step: ScheduledStep,
  model: FakeModel,
  inFlight: readonly InFlightStep[],
  { blockSize, windows }: SchedulerConfig,
): InFlightStep {
  const result = model.run(step);
  const owners = new Map<number, number[]>();
  for (const { requestId, firstPosition } of step.sequences) {
    for (const [group, blocks] of model.requests.tablesOf(requestId).entries()) {
      const window = windows[group]!;
      const oldest = window === null ? 0 : Math.max(0, firstPosition - window + 1);
      for (const block of blocks.slice(Math.floor(oldest / blockSize)))
        owners.set(block, [...(owners.get(block) ?? []), requestId]);
      // Nobody else writes into what a step in flight uses.
      for (const block of blocks.slice(Math.floor(firstPosition / blockSize))) {
        for (const earlier of inFlight) {
          assert.deepEqual(earlier.owners.get(block) ?? [requestId], [requestId]);
        }
      }
    }
  }
  return { step, result, owners };
}

function checkStep(
  step: ScheduledStep,
  model: FakeModel,
  scheduler: Scheduler,
  config: SchedulerConfig,
): void {
  const { requests } = model;
  assert(step.numTokens > 0);
  assert(step.numTokens <= config.maxNumBatchedTokens);
  assert(step.sequences.length <= config.maxNumSeqs);
  // A block may be shared where it is read; where this step writes it has one owner.
  const written = step.sequences.flatMap(({ requestId, firstPosition }) =>
    requests
      .tablesOf(requestId)
      .flatMap((blocks) => blocks.slice(Math.floor(firstPosition / config.blockSize))),
  );
  assert.equal(new Set(written).size, written.length);
  for (const { requestId, firstPosition, tokenIds } of step.sequences) {
    for (const blocks of requests.tablesOf(requestId)) {
      assert(blocks.length * config.blockSize >= firstPosition + tokenIds.length);
    }
  }
  for (const sequence of step.sequences) checkLength(sequence, model, config);
  assert(scheduler.stats.running <= config.maxNumSeqs);
}

/** Whether a context is a long one is decided by its length where it is sampled from, drafts aside. */
function checkLength(sequence: ScheduledSequence, model: FakeModel, config: SchedulerConfig): void {
  const { sampling, isLong, firstPosition, tokenIds, numDraftTokens } = sequence;
  const most = config.shortContext ?? Number.POSITIVE_INFINITY;
  const length = firstPosition + tokenIds.length;
  if (sampling !== null) assert.equal(isLong, length - numDraftTokens > most);
  if (!isLong) assert(length <= most);
  model.checkContext(sequence, config);
}

/** With stages, all that a step computes is known, and no step in flight samples what is in it. */
function checkStagesStep({ sequences }: ScheduledStep, inFlight: readonly InFlightStep[]): void {
  const sampled = inFlight.flatMap(({ step }) => step.sequences).filter(({ sampling }) => sampling !== null);
  const ids = new Set(sampled.map(({ requestId }) => requestId));
  for (const { requestId, tokenIds } of sequences) {
    assert(!ids.has(requestId));
    assert(!tokenIds.includes(PENDING_TOKEN));
  }
}

describe('Scheduler', () => {
  it('splits a prompt that is longer than the budget and samples only at its end', () => {
    const scheduler = new Scheduler(CONFIG);
    const model = new FakeModel();
    scheduler.add(request(1, 70, 1));
    const chunks = [];
    for (let index = 0; index < 3; index += 1) {
      const step = scheduler.schedule();
      chunks.push([step.numTokens, step.sequences[0]!.sampling !== null]);
      scheduler.update(step, model.run(step));
    }
    expect(chunks).toEqual([
      [32, false],
      [32, false],
      [6, true],
    ]);
    expect(scheduler.hasUnfinished).toBe(false);
  });

  it('lets running requests go on before new ones start', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(request(1, 4, 8));
    stepWithFive(scheduler);
    scheduler.add(request(2, 40, 8));
    const step = scheduler.schedule();
    expect(step.sequences.map(({ requestId, tokenIds }) => [requestId, tokenIds.length])).toEqual([
      [1, 1],
      [2, 31],
    ]);
  });

  it('computes a request again that outgrows the short contexts, once, and reuses nothing of short ones for long ones', () => {
    const config = { ...CONFIG, shortContext: 40 };
    const scheduler = new Scheduler(config);
    const model = new FakeModel();
    scheduler.add(request(1, 36, 8));
    const computed: [boolean, number, number][] = [];
    const run = () => {
      while (scheduler.hasUnfinished) {
        const step = scheduler.schedule();
        computed.push(
          ...step.sequences.map(({ isLong, firstPosition, tokenIds }): [boolean, number, number] => [
            isLong,
            firstPosition,
            tokenIds.length,
          ]),
        );
        if (step.numTokens > 0) scheduler.update(step, model.run(step));
      }
    };
    run();
    const again = computed.findIndex(([isLong]) => isLong);
    expect(computed.slice(0, again).map(([, start, count]) => start + count)).toEqual([
      32, 36, 37, 38, 39, 40,
    ]);
    expect(computed.slice(again)).toEqual([
      [true, 0, 32],
      [true, 32, 9],
      [true, 41, 1],
      [true, 42, 1],
    ]);
    computed.length = 0;
    scheduler.add(request(1, 41, 1));
    run();
    expect(computed).toEqual([[true, 32, 9]]);
  });

  it('admits no more requests than there are slots', () => {
    const scheduler = new Scheduler(CONFIG);
    for (let id = 0; id < 6; id += 1) scheduler.add(request(id, 2, 4));
    scheduler.schedule();
    expect(scheduler.stats).toMatchObject({ running: 4, waiting: 2 });
  });

  it('frees an aborted request at once, whatever its state', () => {
    const scheduler = new Scheduler({ ...CONFIG, maxNumSeqs: 1 });
    scheduler.add(request(1, 20, 8));
    scheduler.add(request(2, 20, 8));
    stepWithFive(scheduler);
    scheduler.abort(1);
    scheduler.abort(2);
    scheduler.abort(2);
    expect(scheduler.stats).toMatchObject({ running: 0, waiting: 0, freeBlocks: CONFIG.numBlocks });
    expect(scheduler.hasUnfinished).toBe(false);
  });

  it('preempts the request that came last when blocks run out, and finishes it later', () => {
    const config = { ...CONFIG, numBlocks: 3 };
    const scheduler = new Scheduler(config);
    scheduler.add(request(1, 16, 30));
    scheduler.add(request(2, 16, 30));
    const outputs = runToEnd(scheduler, config);
    expect(scheduler.stats.preemptions).toBeGreaterThan(0);
    expect(outputs.get(1)).toHaveLength(30);
    expect(outputs.get(2)).toHaveLength(30);
  });

  it('takes the blocks that it is short of from the caller, or the request, that runs most', () => {
    const config = { ...CONFIG, maxNumSeqs: 8, numBlocks: 6 };
    for (const own of [
      { caller: 2, group: 2 },
      { caller: 1, group: 2 },
    ]) {
      const scheduler = new Scheduler(config);
      const model = new FakeModel();
      const heavy = { caller: 1, group: 1 };
      for (const id of [1, 2, 3, 4, 5])
        scheduler.add({ ...request(id, 8, 40), ...heavy, extraKeys: saltKeys(`${id}`) });
      scheduler.add({ ...request(6, 8, 40), ...own });
      const ends: number[] = [];
      while (!ends.includes(6)) {
        const step = scheduler.schedule();
        const outputs = scheduler.update(step, model.run(step));
        expect(step.sequences.some(({ requestId }) => requestId === 6)).toBe(true);
        for (const { requestId, finish } of outputs) if (finish !== null) ends.push(requestId);
      }
      expect(scheduler.stats.preemptions).toBeGreaterThan(2);
    }
  });

  it('gives a caller who comes late the next slot, however many another one waits for', () => {
    const scheduler = new Scheduler({ ...CONFIG, maxNumSeqs: 2 });
    for (let id = 0; id < 20; id += 1) scheduler.add({ ...request(id, 2, 2), caller: 1, group: id });
    stepWithFive(scheduler);
    scheduler.add({ ...request(20, 2, 2), caller: 2, group: 20 });
    stepWithFive(scheduler);
    expect(stepWithFive(scheduler).map(({ requestId }) => requestId)).toContain(20);
  });

  it('serves a more urgent request before those that wait, and preempts the least urgent', () => {
    const config = { ...CONFIG, maxNumSeqs: 2, numBlocks: 3 };
    const scheduler = new Scheduler(config);
    const model = new FakeModel();
    scheduler.add({ ...request(1, 16, 30), priority: 5 });
    const first = scheduler.schedule();
    scheduler.update(first, model.run(first));
    scheduler.add({ ...request(2, 16, 12), priority: 1 });
    scheduler.add({ ...request(3, 16, 12), priority: 0 });
    const order: number[] = [];
    while (scheduler.hasUnfinished) {
      const step = scheduler.schedule();
      const result = model.run(step);
      checkStep(step, model, scheduler, config);
      for (const { requestId, finish } of scheduler.update(step, result)) {
        if (finish !== null) order.push(requestId);
      }
    }
    expect(order).toEqual([3, 2, 1]);
    expect(scheduler.stats.preemptions).toBeGreaterThan(0);
  });

  it.each([
    [
      'the end token',
      { eosTokenId: 5, stopTokenIds: [], minTokens: 0, maxTokens: 9 },
      { reason: 'stop', stopTokenId: null },
    ],
    [
      'a stop token',
      { eosTokenId: null, stopTokenIds: [4, 5], minTokens: 0, maxTokens: 9 },
      { reason: 'stop', stopTokenId: 5 },
    ],
    [
      'the last token allowed',
      { eosTokenId: null, stopTokenIds: [], minTokens: 0, maxTokens: 1 },
      { reason: 'length', stopTokenId: null },
    ],
  ])('ends a request at %s', (_, stop, finish) => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add({ ...request(1, 3, 9), stop });
    const outputs = stepWithFive(scheduler);
    expect(outputs).toMatchObject([{ requestId: 1, tokenIds: [5], numCachedTokens: 0, finish }]);
    expect(scheduler.stats.freeBlocks).toBe(CONFIG.numBlocks);
  });

  it('gives every request the same tokens as alone, with no block lost, under any mix', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            ...anyLengths,
            priority: fc.integer({ min: -1, max: 1 }),
            caller: fc.nat(2),
            group: fc.nat(2),
          }),
          {
            minLength: 1,
            maxLength: 12,
          },
        ),
        anyConfig,
        (shapes, config) => {
          const requests = shapes.map(({ promptLength, maxTokens, ...order }, id) => ({
            ...request(id, promptLength, maxTokens),
            ...order,
          }));
          const together = new Scheduler(config);
          for (const one of requests) together.add(one);
          const outputs = runToEnd(together, config);
          expect(together.stats).toMatchObject({ running: 0, waiting: 0, freeBlocks: config.numBlocks });
          for (const one of requests) {
            const alone = new Scheduler(CONFIG);
            alone.add(one);
            expect(outputs.get(one.id)).toEqual(runToEnd(alone, CONFIG).get(one.id));
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it('plans a token that is being sampled like a known one, and nothing after the last token allowed', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(request(1, 3, 3));
    scheduler.add(request(2, 5, 2));
    const first = scheduler.schedule();
    const second = scheduler.schedule();
    expect(second.sequences).toMatchObject([
      { requestId: 1, tokenIds: [PENDING_TOKEN], firstPosition: 3 },
      { requestId: 2, tokenIds: [PENDING_TOKEN], firstPosition: 5 },
    ]);
    scheduler.update(
      first,
      resultOf(first, () => 5),
    );
    const third = scheduler.schedule();
    expect(third.sequences).toMatchObject([{ requestId: 1, tokenIds: [PENDING_TOKEN], firstPosition: 4 }]);
    scheduler.update(
      second,
      resultOf(second, () => 6),
    );
    expect(scheduler.schedule().sequences).toEqual([]);
    const [last] = scheduler.update(
      third,
      resultOf(third, () => 7),
    );
    expect(last).toMatchObject({ requestId: 1, tokenIds: [7], finish: { reason: 'length' } });
    expect(scheduler.stats).toMatchObject({ running: 0, freeBlocks: CONFIG.numBlocks });
  });

  it('drops what a step computes of a request that the step before it ended, and frees its blocks then', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 1, stop: { eosTokenId: 5 } }));
    const first = scheduler.schedule();
    const second = scheduler.schedule();
    const ended = scheduler.update(
      first,
      resultOf(first, () => 5),
    );
    expect(ended).toMatchObject([{ tokenIds: [5], finish: { reason: 'stop' } }]);
    expect(scheduler.logitEdits(second)).toEqual([null]);
    expect(scheduler.stats.freeBlocks).toBe(CONFIG.numBlocks - 1);
    expect(
      scheduler.update(
        second,
        resultOf(second, () => 6),
      ),
    ).toEqual([]);
    expect(scheduler.stats.freeBlocks).toBe(CONFIG.numBlocks);
    expect(scheduler.hasUnfinished).toBe(false);
  });

  it('preempts nothing while a step runs: it waits for the blocks that the step may give back', () => {
    const scheduler = new Scheduler({ ...CONFIG, numBlocks: 2 });
    scheduler.add(request(1, 15, 9));
    scheduler.add(request(2, 16, 9));
    const first = scheduler.schedule();
    // The second needs a third block for its next token.
    expect(scheduler.schedule().sequences).toEqual([]);
    expect(scheduler.stats.preemptions).toBe(0);
    scheduler.update(first, new FakeModel().run(first));
    expect(scheduler.schedule().sequences).toMatchObject([{ requestId: 1 }]);
    expect(scheduler.stats.preemptions).toBe(1);
  });

  it.each([
    { maxInFlight: 1, pipelineParallelSize: 1 },
    { maxInFlight: 2, pipelineParallelSize: 1 },
    { maxInFlight: 3, pipelineParallelSize: 1 },
    { maxInFlight: 1, pipelineParallelSize: 2 },
    { maxInFlight: 2, pipelineParallelSize: 3 },
    { maxInFlight: 7, pipelineParallelSize: 8 },
  ])(
    'gives every request the same tokens as alone with $maxInFlight steps in flight over $pipelineParallelSize stages, whatever ends or leaves meanwhile',
    ({ maxInFlight, pipelineParallelSize }) => {
      fc.assert(
        fc.property(
          fc.array(
            fc.record({
              ...anyLengths,
              stopTokenIds: fc.constantFrom([], [3, 40], [3, 40, 51, 62, 73]),
              abortedAt: fc.option(fc.nat(40)),
            }),
            { minLength: 1, maxLength: 12 },
          ),
          anyConfig,
          (shapes, config) => {
            const requests = shapes.map(({ promptLength, maxTokens, stopTokenIds }, id) => {
              const one = request(id, promptLength, maxTokens);
              return { ...one, stop: { ...one.stop, stopTokenIds } };
            });
            const pipelined = new Scheduler({ ...config, pipelineParallelSize });
            for (const one of requests) pipelined.add(one);
            const abortions = new Map(
              shapes.flatMap(({ abortedAt }, id) => (abortedAt === null ? [] : [[abortedAt, id]])),
            );
            const before = (at: number): boolean => {
              const id = abortions.get(at);
              if (id !== undefined) pipelined.abort(id);
              return false;
            };
            const planned: Hooks['planned'] = (step, inFlight) => {
              if (pipelineParallelSize > 1) checkStagesStep(step, inFlight);
            };
            const outputs = runPipelined(pipelined, config, maxInFlight, { before, planned });
            expect(pipelined.stats).toMatchObject({ running: 0, waiting: 0, freeBlocks: config.numBlocks });
            const aborted = new Set(abortions.values());
            for (const one of requests) {
              const alone = new Scheduler(CONFIG);
              alone.add(one);
              const expected = runToEnd(alone, CONFIG).get(one.id)!;
              const given = outputs.get(one.id) ?? [];
              expect(given).toEqual(aborted.has(one.id) ? expected.slice(0, given.length) : expected);
            }
          },
        ),
        { numRuns: 100 },
      );
    },
  );

  it('plans up to three steps ahead of a token that nobody has read', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(request(1, 3, 9));
    const steps = [scheduler.schedule(), scheduler.schedule(), scheduler.schedule()];
    expect(steps.map(({ sequences }) => sequences)).toMatchObject([
      [{ firstPosition: 0, tokenIds: [1 * 31, 32, 33] }],
      [{ firstPosition: 3, tokenIds: [PENDING_TOKEN] }],
      [{ firstPosition: 4, tokenIds: [PENDING_TOKEN] }],
    ]);
  });

  it('says that logit edits need pending tokens only of requests with rules, and only while there are some', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 1, rules: { repetitionPenalty: 2 } }));
    scheduler.add(newRequest({ id: 2 }));
    const first = scheduler.schedule();
    expect(scheduler.needsPendingTokens(first)).toBe(false);
    const second = scheduler.schedule();
    expect(scheduler.needsPendingTokens(second)).toBe(true);
    scheduler.update(
      first,
      resultOf(first, () => 5),
    );
    expect(scheduler.needsPendingTokens(second)).toBe(false);
    expect(scheduler.logitEdits(second)).toMatchObject([{ ids: [1, 5] }, null]);
    scheduler.abort(1);
    scheduler.update(
      second,
      resultOf(second, () => 5),
    );
    scheduler.schedule();
    expect(scheduler.needsPendingTokens(scheduler.schedule())).toBe(false);
  });

  it.each([
    { biases: [[7, 1]] },
    { allowedTokenIds: Int32Array.of(5, 6) },
    { badWords: groupBadWords([[7], [8]]) },
  ] satisfies Partial<LogitRules>[])('waits for no token where edits are the same after any: %o', (rules) => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 1, rules }));
    const first = scheduler.schedule();
    const edits = scheduler.logitEdits(first);
    expect(edits).not.toEqual([null]);
    const second = scheduler.schedule();
    expect(scheduler.needsPendingTokens(second)).toBe(false);
    expect(scheduler.logitEdits(second)).toEqual(edits);
  });

  it.each([
    { minTokens: 3, endTokenIds: [2] },
    { badWords: groupBadWords([[7, 8]]) },
    { presencePenalty: 1 },
  ] satisfies Partial<LogitRules>[])('waits for the tokens that edits depend on: %o', (rules) => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 1, rules }));
    scheduler.schedule();
    expect(scheduler.needsPendingTokens(scheduler.schedule())).toBe(true);
  });

  it('tells each block of a request once, and which requests have given theirs back', () => {
    const scheduler = new Scheduler({ ...CONFIG, numBlocks: 3, enablePrefixCaching: false });
    scheduler.add(request(1, 16, 30));
    scheduler.add(request(2, 15, 30));
    const steps: ScheduledStep[] = [];
    const model = new FakeModel();
    for (let count = 0; count < 4; count += 1) {
      const step = scheduler.schedule();
      steps.push(step);
      scheduler.update(step, model.run(step));
    }
    expect(
      steps.map(({ releasedRequestIds, sequences }) => [
        releasedRequestIds,
        ...sequences.map(({ requestId, newBlocks }) => [requestId, newBlocks[0]!.length]),
      ]),
    ).toEqual([
      [[], [1, 1], [2, 1]],
      [[], [1, 1], [2, 0]],
      // The second request needs another block, finds none, and gives up its own.
      [[2], [1, 0]],
      [[], [1, 0]],
    ]);
    scheduler.abort(1);
    expect(scheduler.schedule()).toMatchObject({
      releasedRequestIds: [1],
      sequences: [{ requestId: 2, newBlocks: [[expect.any(Number), expect.any(Number)]] }],
    });
  });

  it('takes several tokens of one step one by one, up to the one that ends the request', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 1, promptTokenIds: [1, 2], stop: { eosTokenId: 9, maxTokens: 5 } }));
    const give = (...tokenIds: number[]): TokenOutput[] => {
      const step = scheduler.schedule();
      const logprobs = tokenIds.map((tokenId) => rowsOf([tokenId]));
      return scheduler.update(step, {
        outputs: [{ kind: 'tokens', tokenIds, logprobs }],
        promptLogprobs: [[]],
        resumedLogprobs: [[]],
      });
    };
    expect(give(3, 4)).toMatchObject([
      { tokenIds: [3], finish: null, logprobs: { tokenIds: [3] } },
      { tokenIds: [4], finish: null, logprobs: { tokenIds: [4] } },
    ]);
    expect(give(5)).toMatchObject([{ tokenIds: [5], finish: null }]);
    expect(give(6, 9, 7)).toMatchObject([
      { tokenIds: [6], finish: null },
      { tokenIds: [9], finish: { reason: 'stop', stopTokenId: null }, logprobs: { tokenIds: [9] } },
    ]);
    expect(scheduler.stats).toMatchObject({ generationTokens: 5, running: 0, freeBlocks: CONFIG.numBlocks });
  });

  it('lets no end or stop token end an answer that is shorter than min_tokens', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 1, stop: { eosTokenId: 5, stopTokenIds: [5], minTokens: 3 } }));
    const finishes = [1, 2, 3].map(() => stepWithFive(scheduler)[0]!.finish);
    expect(finishes).toEqual([null, null, { reason: 'stop', stopTokenId: null }]);
  });

  it('ends an answer at its length even before min_tokens', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 1, stop: { minTokens: 3, maxTokens: 1 } }));
    expect(stepWithFive(scheduler)[0]!.finish).toEqual({ reason: 'length', stopTokenId: null });
  });

  it('ends an answer with the token that completes a repetition, without the prompt and what came after it in a step', () => {
    const repetition = { minPatternSize: 1, maxPatternSize: 2, minCount: 3 };
    const finishes = [0, 8].map((minTokens) => {
      const scheduler = new Scheduler(CONFIG);
      scheduler.add(newRequest({ id: 1, promptTokenIds: [5, 6, 5, 6], stop: { repetition, minTokens } }));
      const step = scheduler.schedule();
      const tokens = { kind: 'tokens', tokenIds: [5, 6, 5, 6, 5, 6, 5, 6, 5], logprobs: null } as const;
      return scheduler
        .update(step, { ...resultOf(step, () => 0), outputs: [tokens] })
        .map(({ finish }) => finish?.reason ?? null);
    });
    expect(finishes).toEqual([
      [...new Array(5).fill(null), 'repetition'],
      [...new Array(7).fill(null), 'repetition'],
    ]);
  });

  it('scores every prompt token but the first exactly once, in chunks and after preemptions', () => {
    const config = { ...CONFIG, maxNumBatchedTokens: 10, numBlocks: 6 };
    const scheduler = new Scheduler(config);
    const model = new FakeModel();
    for (const id of [0, 1, 2]) {
      scheduler.add({ ...request(id, 37, 25), numPromptLogprobs: 2 });
    }
    const scored = new Map<number, number[]>();
    while (scheduler.hasUnfinished) {
      const step = scheduler.schedule();
      for (const { requestId, promptLogprobs, tokenIds, firstPosition } of step.sequences) {
        if (promptLogprobs === null) continue;
        const soFar = scored.get(requestId) ?? [];
        // The row that is read stands directly before the next token to be scored.
        expect(firstPosition + promptLogprobs.firstRow).toBe(soFar.length);
        expect(promptLogprobs.firstRow).toBeGreaterThanOrEqual(0);
        expect(promptLogprobs.firstRow + promptLogprobs.tokenIds.length).toBeLessThanOrEqual(tokenIds.length);
        scored.set(requestId, [...soFar, ...promptLogprobs.tokenIds]);
      }
      scheduler.update(step, model.run(step));
    }
    expect(scheduler.stats.preemptions).toBeGreaterThan(0);
    for (const id of [0, 1, 2]) expect(scored.get(id)).toEqual(request(id, 37, 25).promptTokenIds.slice(1));
  });

  it('emits the tokens that an answer resumes before its first new one, and ends where one of them ends it', () => {
    const scheduler = new Scheduler(CONFIG);
    const resumed = { promptTokenIds: [1, 2], resumedTokenIds: [3, 9, 4] };
    scheduler.add(newRequest({ id: 1, ...resumed, stop: { maxTokens: 4 } }));
    scheduler.add(newRequest({ id: 2, ...resumed, stop: { eosTokenId: 9 } }));
    const first = scheduler.schedule();
    expect(first.sequences).toMatchObject([{ tokenIds: [1, 2, 3, 9, 4] }, { tokenIds: [1, 2, 3, 9, 4] }]);
    const outputs = scheduler.update(
      first,
      resultOf(first, () => 5),
    );
    const stop = { reason: 'stop', stopTokenId: null };
    expect(outputs.map(({ requestId, tokenIds, finish }) => [requestId, ...tokenIds, finish])).toEqual([
      [1, 3, null],
      [1, 9, null],
      [1, 4, null],
      [1, 5, { reason: 'length', stopTokenId: null }],
      [2, 3, null],
      [2, 9, stop],
    ]);
    expect(outputs.map(({ admission }) => admission !== null)).toEqual([
      ...[true, false, false, false],
      ...[true, false],
    ]);
    expect(scheduler.stats).toMatchObject({
      promptTokens: 4,
      generationTokens: 6,
      freeBlocks: CONFIG.numBlocks,
    });
  });

  it('counts no token of an answer that is resumed as a cached one of its prompt', () => {
    const scheduler = new Scheduler(CONFIG);
    const tokens = request(1, 50, 1).promptTokenIds;
    scheduler.add(request(1, 50, 1));
    while (scheduler.hasUnfinished) stepWithFive(scheduler);
    const resumed = { promptTokenIds: tokens.slice(0, 20), resumedTokenIds: tokens.slice(20, 49) };
    scheduler.add(newRequest({ id: 2, ...resumed, stop: { maxTokens: 30 } }));
    const step = scheduler.schedule();
    expect(step.sequences).toMatchObject([{ firstPosition: 48 }]);
    const [output] = scheduler.update(
      step,
      resultOf(step, () => 5),
    );
    expect(output).toMatchObject({ numCachedTokens: 16, admission: { numPrefillTokens: 4 } });
    expect(scheduler.stats).toMatchObject({ prefixCacheHits: 16, cachedPromptTokens: 16 });
  });

  it('forgets every prefix, though not while requests run or load', () => {
    const scheduler = new Scheduler(CONFIG);
    const firstPosition = (id: number): number => {
      scheduler.add({ ...request(1, 20, 1), id });
      const step = scheduler.schedule();
      expect(scheduler.resetPrefixCache()).toBe(false);
      scheduler.update(
        step,
        resultOf(step, () => 5),
      );
      return step.sequences[0]!.firstPosition;
    };
    expect([1, 2].map(firstPosition)).toEqual([0, 16]);
    expect(scheduler.resetPrefixCache()).toBe(true);
    expect(firstPosition(3)).toBe(0);
    scheduler.add({ ...request(2, 40, 1), transfer: { kind: 'load', transferId: 1 } });
    scheduler.schedule();
    expect(scheduler.resetPrefixCache()).toBe(false);
    scheduler.abort(2);
    expect(scheduler.resetPrefixCache()).toBe(true);
  });

  it('puts sequences of one adapter side by side, and tells which ones run and wait', () => {
    const scheduler = new Scheduler(CONFIG);
    for (const [id, adapterId] of [3, null, 2, 3, 4].entries())
      scheduler.add(newRequest({ id, adapterId, stop: { maxTokens: 1 } }));
    const step = scheduler.schedule();
    expect(step.sequences.map(({ adapterId }) => adapterId)).toEqual([null, 2, 3, 3]);
    expect(scheduler.stats.runningAdapters.toSorted()).toEqual([2, 3]);
    expect(scheduler.stats.waitingAdapters).toEqual([4]);
    scheduler.update(
      step,
      resultOf(step, () => 5),
    );
    expect(scheduler.stats).toMatchObject({ runningAdapters: [], waitingAdapters: [4] });
  });

  it('scores every token that an answer resumes exactly once, in chunks, after preemptions, and though they are cached', () => {
    const config = { ...CONFIG, maxNumBatchedTokens: 10, numBlocks: 6 };
    const scheduler = new Scheduler(config);
    const model = new FakeModel();
    const prompt = request(1, 37, 1).promptTokenIds;
    const resumed = { promptTokenIds: prompt.slice(0, 20), resumedTokenIds: prompt.slice(20) };
    scheduler.add(newRequest({ id: 9, promptTokenIds: prompt, stop: { maxTokens: 1 } }));
    while (scheduler.hasUnfinished) stepWithFive(scheduler);
    for (const id of [0, 1, 2])
      scheduler.add(newRequest({ id, ...resumed, sampling: { numLogprobs: 2 }, stop: { maxTokens: 40 } }));
    const scored = new Map<number, number[]>();
    let numCached = 0;
    while (scheduler.hasUnfinished) {
      const step = scheduler.schedule();
      for (const { requestId, resumedLogprobs, tokenIds, firstPosition } of step.sequences) {
        const soFar = scored.get(requestId) ?? [];
        if (soFar.length === 0) numCached = Math.max(numCached, firstPosition);
        if (resumedLogprobs === null) continue;
        expect(resumedLogprobs.firstRow).toBe(20 + soFar.length - 1 - firstPosition);
        expect(resumedLogprobs.firstRow).toBeGreaterThanOrEqual(0);
        expect(resumedLogprobs.firstRow + resumedLogprobs.tokenIds.length).toBeLessThanOrEqual(
          tokenIds.length,
        );
        scored.set(requestId, [...soFar, ...resumedLogprobs.tokenIds]);
      }
      scheduler.update(step, model.run(step));
    }
    expect(numCached).toBeGreaterThan(0);
    expect(scheduler.stats.preemptions).toBeGreaterThan(0);
    for (const id of [0, 1, 2]) expect(scored.get(id)).toEqual(resumed.resumedTokenIds);
  });

  it('hands the log-probabilities of the prompt over with the first token, all pieces in order', () => {
    const scheduler = new Scheduler({ ...CONFIG, maxNumBatchedTokens: 4 });
    const model = new FakeModel();
    scheduler.add({ ...request(1, 10, 2), numPromptLogprobs: 0 });
    const given: (readonly Logprobs[] | null)[] = [];
    while (scheduler.hasUnfinished) {
      const step = scheduler.schedule();
      const pieces = step.sequences.map(({ promptLogprobs }) =>
        promptLogprobs === null ? [] : [rowsOf(promptLogprobs.tokenIds)],
      );
      const outputs = scheduler.update(step, { ...model.run(step), promptLogprobs: pieces });
      given.push(...outputs.map(({ promptLogprobs }) => promptLogprobs));
    }
    expect(given).toHaveLength(2);
    expect(given[0]!.flatMap(({ tokenIds }) => Array.from(tokenIds))).toEqual(
      request(1, 10, 2).promptTokenIds.slice(1),
    );
    expect(given[1]).toBeNull();
  });
});

describe('Scheduler, with tokens guessed ahead', () => {
  const speculative = {
    method: 'ngram',
    numSpeculativeTokens: 4,
    promptLookupMax: 2,
    promptLookupMin: 2,
  } as const;
  const config: SchedulerConfig = { ...CONFIG, speculative };
  /** Its newest two tokens have come before; each step samples one of `sampled` a row. */
  const quoting = (id: number, length: number, maxTokens = 99): NewRequest =>
    newRequest({ id, promptTokenIds: Array.from({ length }, (_, index) => index % 2), stop: { maxTokens } });
  const giving = (step: ScheduledStep, ...tokenIds: number[]): StepResult => ({
    ...resultOf(step, () => 0),
    outputs: step.sequences.map(() => ({ kind: 'tokens', tokenIds, logprobs: null })),
  });

  it('plans a draft after tokens that are known, and counts as computed what of it was accepted', () => {
    const scheduler = new Scheduler(config);
    scheduler.add(quoting(1, 8));
    const first = scheduler.schedule();
    expect(first.sequences).toMatchObject([{ tokenIds: [0, 1, 0, 1, 0, 1, 0, 1], numDraftTokens: 0 }]);
    scheduler.update(first, giving(first, 0));
    const second = scheduler.schedule();
    expect(second.sequences).toMatchObject([
      { tokenIds: [0, 1, 0, 1, 0], firstPosition: 8, numDraftTokens: 4 },
    ]);
    expect(second.numTokens).toBe(5);
    const outputs = scheduler.update(second, giving(second, 1, 0, 7));
    expect(outputs.map(({ tokenIds }) => tokenIds)).toEqual([[1], [0], [7]]);
    expect(scheduler.schedule().sequences).toMatchObject([
      { tokenIds: [7], firstPosition: 11, numDraftTokens: 0 },
    ]);
    expect(scheduler.stats.speculation).toMatchObject({ drafts: 1, draftTokens: 4, acceptedTokens: 2 });
  });

  it('plans ahead of a token that no draft would follow, and of none that one may', () => {
    const scheduler = new Scheduler(config);
    scheduler.add(newRequest({ id: 1, promptTokenIds: [1, 2, 3] }));
    const steps = [scheduler.schedule(), scheduler.schedule()];
    expect(steps[1]!.sequences).toMatchObject([{ tokenIds: [PENDING_TOKEN] }]);
    for (const step of steps) scheduler.update(step, giving(step, 5));
    // 5, 5 has come before, and so has what follows 3, 5: all wait for the next token.
    scheduler.add(newRequest({ id: 2, promptTokenIds: [3, 5, 3, 5] }));
    const third = scheduler.schedule();
    expect(third.sequences).toHaveLength(2);
    expect(scheduler.schedule().sequences).toEqual([]);
    scheduler.update(third, giving(third, 3));
    const fourth = scheduler.schedule();
    expect(fourth.sequences).toMatchObject([
      { requestId: 1, numDraftTokens: 0 },
      { requestId: 2, numDraftTokens: 3 },
    ]);
    expect(scheduler.schedule().sequences).toEqual([]);
  });

  it('plans nothing ahead of a draft, not even the last token after it', () => {
    const scheduler = new Scheduler(config);
    scheduler.add(quoting(1, 8, 3));
    const first = scheduler.schedule();
    scheduler.update(first, giving(first, 0));
    expect(scheduler.schedule().sequences).toMatchObject([{ numDraftTokens: 1 }]);
    expect(scheduler.schedule().sequences).toEqual([]);
  });

  it('ends no draft beyond the last token allowed, nor beyond the tokens of a step', () => {
    const scheduler = new Scheduler({ ...config, maxNumBatchedTokens: 8 });
    scheduler.add(quoting(1, 8, 4));
    const first = scheduler.schedule();
    scheduler.update(first, giving(first, 0));
    // Three tokens are left, of which the step samples one more than it guesses.
    expect(scheduler.schedule().sequences).toMatchObject([{ numDraftTokens: 2 }]);
    const narrow = new Scheduler({ ...config, maxNumSeqs: 1, maxNumBatchedTokens: 3 });
    narrow.add(quoting(1, 3));
    const start = narrow.schedule();
    narrow.update(start, giving(start, 1));
    expect(narrow.schedule().sequences).toMatchObject([{ numDraftTokens: 2 }]);
  });

  it('ends no draft beyond the short contexts', () => {
    const scheduler = new Scheduler({ ...config, shortContext: 10 });
    scheduler.add(quoting(1, 8));
    const first = scheduler.schedule();
    scheduler.update(first, giving(first, 0));
    expect(scheduler.schedule().sequences).toMatchObject([{ isLong: false, numDraftTokens: 1 }]);
  });

  it('lets a request have what drafts leave of the tokens of a step', () => {
    const scheduler = new Scheduler({ ...config, maxNumBatchedTokens: 8 });
    scheduler.add(quoting(1, 8));
    const first = scheduler.schedule();
    scheduler.update(first, giving(first, 0));
    scheduler.add(newRequest({ id: 2, promptTokenIds: [1, 2, 3, 4, 5, 6] }));
    const step = scheduler.schedule();
    expect(step.sequences).toMatchObject([{ numDraftTokens: 4 }, { tokenIds: [1, 2, 3] }]);
    expect(step.numTokens).toBe(8);
  });

  it('remembers nothing of a request that is over for one that gets its id', () => {
    const scheduler = new Scheduler(config);
    scheduler.add(quoting(1, 8));
    const first = scheduler.schedule();
    scheduler.update(first, giving(first, 0));
    // Its whole draft is wrong, so that it would have to pause.
    const second = scheduler.schedule();
    scheduler.update(second, giving(second, 7));
    scheduler.abort(1);
    scheduler.add(quoting(1, 8));
    const third = scheduler.schedule();
    scheduler.update(third, giving(third, 0));
    expect(scheduler.schedule().sequences).toMatchObject([{ numDraftTokens: 4 }]);
  });

  it('shortens a draft for which there is no block, and preempts nobody', () => {
    const scheduler = new Scheduler({ ...config, numBlocks: 2, enablePrefixCaching: false });
    scheduler.add(quoting(1, 13));
    scheduler.add(newRequest({ id: 2, promptTokenIds: [7] }));
    const first = scheduler.schedule();
    scheduler.update(first, giving(first, 1));
    // One slot of its block is left after the one that it needs.
    expect(scheduler.schedule().sequences).toMatchObject([
      { requestId: 1, tokenIds: [1, 0, 1], numDraftTokens: 2 },
      { requestId: 2 },
    ]);
    expect(scheduler.stats).toMatchObject({ preemptions: 0, running: 2 });
  });

  it('names no block in the prefix cache that holds a rejected token', () => {
    const scheduler = new Scheduler(config);
    scheduler.add(quoting(1, 13));
    const first = scheduler.schedule();
    scheduler.update(first, giving(first, 1));
    const second = scheduler.schedule();
    expect(second.sequences).toMatchObject([{ tokenIds: [1, 0, 1, 0, 1], firstPosition: 13 }]);
    // Positions 14 and 15 are accepted: the first block is full of known tokens, the second has a rejected one.
    scheduler.update(second, giving(second, 0, 1, 5));
    scheduler.abort(1);
    const same = [...quoting(2, 13).promptTokenIds, 1, 0, 1, 0, 1];
    scheduler.add(newRequest({ id: 2, promptTokenIds: same }));
    expect(scheduler.schedule().sequences).toMatchObject([{ requestId: 2, firstPosition: 16 }]);
    const other = new Scheduler(config);
    other.add(quoting(1, 13));
    for (const tokens of [[1], [0, 5]]) {
      const step = other.schedule();
      other.update(step, giving(step, ...tokens));
    }
    other.abort(1);
    other.add(newRequest({ id: 2, promptTokenIds: same }));
    expect(other.schedule().sequences).toMatchObject([{ requestId: 2, firstPosition: 0 }]);
  });
});

/** Slots are short, and nothing else. */
const ROOMY: SchedulerConfig = { ...CONFIG, maxNumBatchedTokens: 512, numBlocks: 100 };

/** What comes to a server over time: the samples of each are one group. */
const anyArrivals = fc
  .array(
    fc.record({
      ...anyLengths,
      at: fc.nat(30),
      caller: fc.nat(2),
      numSamples: fc.integer({ min: 1, max: 8 }),
    }),
    { minLength: 1, maxLength: 8 },
  )
  .map((arrivals) =>
    arrivals.map(({ at, caller, numSamples, promptLength, maxTokens }, group) => ({
      at,
      samples: Array.from({ length: numSamples }, (_, sample) => ({
        ...request(group * 10 + sample, promptLength, maxTokens),
        caller,
        group,
      })),
    })),
  );

type Arrivals = typeof anyArrivals extends fc.Arbitrary<infer T> ? T : never;

/** Which requests have a slot and which wait, after each planning. */
/** @param preempted of this step, though some may have a slot again. */
type SeeSlots = (
  holding: readonly NewRequest[],
  waiting: readonly NewRequest[],
  preempted: readonly NewRequest[],
) => void;

function runArrivals(
  arrivals: Arrivals,
  config: SchedulerConfig,
  see: SeeSlots,
  maxInFlight = 1,
): Map<number, number[]> {
  const scheduler = new Scheduler(config);
  const arrived: NewRequest[] = [];
  const outputs = runPipelined(scheduler, config, maxInFlight, {
    before: (numSteps) => {
      const now = arrivals.filter(({ at }) => at === numSteps).flatMap(({ samples }) => samples);
      for (const sample of now) scheduler.add(sample);
      arrived.push(...now);
      return arrivals.some(({ at }) => at > numSteps);
    },
    planned: (planned, inFlight, soFar) => {
      const steps = [planned, ...inFlight.map(({ step }) => step)];
      const ids = new Set(steps.flatMap(({ sequences }) => sequences.map(({ requestId }) => requestId)));
      const unfinished = arrived.filter(({ id, stop }) => (soFar.get(id)?.length ?? 0) < stop.maxTokens);
      see(
        unfinished.filter(({ id }) => ids.has(id)),
        unfinished.filter(({ id }) => !ids.has(id)),
        unfinished.filter(({ id }) => planned.releasedRequestIds.includes(id)),
      );
    },
  });
  expect(scheduler.stats).toMatchObject({ running: 0, waiting: 0, freeBlocks: config.numBlocks });
  expect(outputs.size).toBe(arrived.length);
  return outputs;
}

function countBy<T>(values: readonly T[], keyOf: (value: T) => number): (key: number) => number {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(keyOf(value), (counts.get(keyOf(value)) ?? 0) + 1);
  return (key) => counts.get(key) ?? 0;
}

/** Requests that wait, none of whose samples has a slot, while another one or another caller has two more than it. */
function deprived(waiting: readonly NewRequest[], holding: readonly NewRequest[]): readonly NewRequest[] {
  const ofCaller = countBy(holding, ({ caller }) => caller);
  const ofGroup = countBy(holding, ({ group }) => group);
  const hasTwoMore = ({ caller }: NewRequest, other: NewRequest): boolean =>
    other.caller === caller ? ofGroup(other.group) >= 2 : ofCaller(other.caller) >= ofCaller(caller) + 2;
  const without = waiting.filter(({ group }) => ofGroup(group) === 0);
  return without.filter((one) => holding.some((other) => hasTwoMore(one, other)));
}

describe('Scheduler, where slots are short', () => {
  it('gives a request that has none the slot of one that has several, in the second step after it comes', () => {
    for (const heavyGroups of [
      [1, 1, 1, 1],
      [1, 1, 2, 2],
      [1, 2, 3, 4],
    ]) {
      const scheduler = new Scheduler(ROOMY);
      for (const [id, group] of heavyGroups.entries())
        scheduler.add({ ...request(id, 20, 99), caller: 1, group });
      const first = scheduler.schedule();
      scheduler.add({ ...request(9, 20, 99), caller: 1, group: 9 });
      const isEntitled = new Set(heavyGroups).size < heavyGroups.length;
      const second = scheduler.schedule();
      // Nothing gives up its blocks while the first step computes it.
      expect(second.sequences.length).toBe(isEntitled ? 0 : 4);
      const model = new FakeModel();
      scheduler.update(first, model.run(first));
      if (!isEntitled) scheduler.update(second, model.run(second));
      const ids = scheduler.schedule().sequences.map(({ requestId }) => requestId);
      expect(ids.includes(9)).toBe(isEntitled);
      expect(scheduler.stats.preemptions).toBe(isEntitled ? 1 : 0);
    }
  });

  it('takes it from the caller with the most, even where each of its requests has one', () => {
    const scheduler = new Scheduler(ROOMY);
    for (const id of [0, 1, 2]) scheduler.add({ ...request(id, 20, 99), caller: 1, group: id });
    scheduler.add({ ...request(3, 20, 99), caller: 2, group: 3 });
    stepWithFive(scheduler);
    scheduler.add({ ...request(4, 20, 99), caller: 2, group: 4 });
    scheduler.add({ ...request(5, 20, 99), caller: 3, group: 5 });
    for (let steps = 0; steps < 2; steps += 1) {
      expect(new Set(stepWithFive(scheduler).map(({ requestId }) => requestId))).toEqual(
        new Set([0, 1, 3, 5]),
      );
    }
    expect(scheduler.stats).toMatchObject({ preemptions: 1, waiting: 2 });
  });

  it('preempts whoever loses the fewest computed tokens, and nobody twice before the others of its request', () => {
    const scheduler = new Scheduler(ROOMY);
    for (const [id, length] of [30, 10, 20, 40].entries())
      scheduler.add({ ...request(id, length, 99), group: 1 });
    for (let steps = 0; steps < 5; steps += 1) stepWithFive(scheduler);
    const preempted: number[] = [];
    for (let group = 10; group < 14; group += 1) {
      scheduler.add({ ...request(group, 2, 2), group });
      const given = stepWithFive(scheduler).map(({ requestId }) => requestId);
      expect(given).toContain(group);
      preempted.push(...[0, 1, 2, 3].filter((id) => !given.includes(id)));
      // It ends, and its slot goes back.
      stepWithFive(scheduler);
      expect(stepWithFive(scheduler)).toHaveLength(4);
    }
    expect(preempted).toEqual([1, 2, 0, 3]);
  });

  it('counts a request that left while it waited as no slot of its caller that is given back', () => {
    const scheduler = new Scheduler({ ...ROOMY, maxNumSeqs: 3 });
    const of = (caller: number, id: number) => ({ ...request(id, 20, 99), caller, group: caller });
    for (const caller of [1, 2, 3]) scheduler.add(of(caller, caller));
    scheduler.schedule();
    scheduler.add(of(2, 4));
    scheduler.abort(4);
    // Both callers have a slot, and the third one came first.
    for (const caller of [3, 2]) scheduler.add(of(caller, 10 + caller));
    scheduler.abort(1);
    expect(scheduler.schedule().sequences.map(({ requestId }) => requestId)).toEqual([2, 3, 13]);
  });

  it('leaves a more urgent request its slots', () => {
    const scheduler = new Scheduler(ROOMY);
    for (const id of [0, 1, 2, 3]) scheduler.add({ ...request(id, 20, 99), group: 1, priority: -1 });
    stepWithFive(scheduler);
    scheduler.add({ ...request(9, 20, 99), group: 9 });
    expect(stepWithFive(scheduler).map(({ requestId }) => requestId)).toEqual([0, 1, 2, 3]);
    expect(scheduler.stats.preemptions).toBe(0);
  });

  it('makes room for the whole prompt of a request that has no slot, where it is blocks that are short', () => {
    const scheduler = new Scheduler({ ...ROOMY, maxNumSeqs: 16, numBlocks: 10 });
    for (let id = 0; id < 9; id += 1)
      scheduler.add({ ...request(id, 2, 99), group: 1, extraKeys: saltKeys(`${id}`) });
    stepWithFive(scheduler);
    scheduler.add({ ...request(9, 70, 9), group: 2 });
    const given = stepWithFive(scheduler).map(({ requestId }) => requestId);
    expect(given).toEqual([0, 1, 2, 3, 4, 9]);
    expect(scheduler.stats).toMatchObject({ preemptions: 4, freeBlocks: 0 });
  });

  it('preempts nobody for a prompt that would not find enough blocks even so', () => {
    const scheduler = new Scheduler({ ...ROOMY, numBlocks: 10 });
    for (let id = 0; id < 3; id += 1)
      scheduler.add({ ...request(id, 40, 99), group: 1, extraKeys: saltKeys(`${id}`) });
    stepWithFive(scheduler);
    scheduler.add({ ...request(9, 120, 9), group: 2 });
    expect(stepWithFive(scheduler)).toHaveLength(3);
    expect(scheduler.stats).toMatchObject({ preemptions: 0, waiting: 1 });
  });

  it('counts the slot of a request that waits for the KV of another instance, and never preempts it', () => {
    const scheduler = new Scheduler(ROOMY);
    const loading = (id: number): NewRequest => ({
      ...request(id, 40, 99),
      group: 1,
      transfer: { kind: 'load', transferId: id },
    });
    for (const id of [0, 1, 2, 3]) scheduler.add(loading(id));
    expect(scheduler.schedule().sequences).toEqual([]);
    scheduler.add({ ...request(9, 20, 99), group: 9 });
    expect(scheduler.schedule().sequences).toEqual([]);
    expect(scheduler.stats).toMatchObject({ loading: 4, waiting: 1, preemptions: 0 });
    scheduler.applyTransfer({ kind: 'loaded', transferId: 2, numTokens: 39 });
    expect(scheduler.stats).toMatchObject({ externalCacheQueries: 160, externalCacheHits: 39 });
    // The one that has its blocks gives way: it is computed here later.
    expect(scheduler.schedule().sequences).toMatchObject([{ requestId: 9 }]);
    expect(scheduler.stats).toMatchObject({ loading: 3, running: 1, waiting: 1, preemptions: 1 });
  });

  it('tells of the tokens of a prompt which were cached, which came from another instance, and which were computed', () => {
    const scheduler = new Scheduler({ ...ROOMY, maxNumBatchedTokens: 100 });
    scheduler.add(request(0, 20, 1));
    stepWithFive(scheduler);
    scheduler.add({ ...request(0, 60, 1), id: 1, transfer: { kind: 'load', transferId: 1 } });
    scheduler.schedule();
    scheduler.applyTransfer({ kind: 'loaded', transferId: 1, numTokens: 48 });
    const [given] = stepWithFive(scheduler);
    expect(given?.admission?.numPrefillTokens).toBe(60 - 48);
    expect(scheduler.stats).toMatchObject({
      promptTokens: 80,
      cachedPromptTokens: 16,
      loadedPromptTokens: 32,
      externalCacheQueries: 44,
      externalCacheHits: 32,
    });
  });

  it('makes room for a request whose KV is to come from another instance', () => {
    const events: KvTransferEvent[] = [];
    const scheduler = new Scheduler(ROOMY, null, (event) => void events.push(event));
    for (const id of [0, 1, 2, 3]) scheduler.add({ ...request(id, 20, 99), group: 1 });
    stepWithFive(scheduler);
    scheduler.add({ ...request(9, 40, 99), group: 9, transfer: { kind: 'load', transferId: 9 } });
    expect(scheduler.schedule().sequences).toHaveLength(3);
    expect(events).toMatchObject([{ kind: 'load', transferId: 9 }]);
    expect(scheduler.stats).toMatchObject({ loading: 1, running: 3, waiting: 1 });
  });

  it.each([1, 2, 3])(
    'gives, with %i steps in flight, a first slot to somebody at least every so many steps and two, while one has none and another two more',
    (maxInFlight) => {
      fc.assert(
        fc.property(anyArrivals, fc.integer({ min: 1, max: 6 }), (arrivals, maxNumSeqs) => {
          let numIdle = 0;
          let before: readonly NewRequest[] = [];
          const see: SeeSlots = (holding, waiting) => {
            // A request whose samples with a slot have ended has none until its next sample is admitted.
            const hadSlot = new Set(holding.filter((one) => before.includes(one)).map(({ group }) => group));
            const isAdmitted = holding.some(({ group }) => !hadSlot.has(group));
            before = holding;
            numIdle = isAdmitted || deprived(waiting, holding).length === 0 ? 0 : numIdle + 1;
            assert(numIdle <= maxInFlight + 1);
          };
          runArrivals(arrivals, { ...ROOMY, maxNumSeqs }, see, maxInFlight);
        }),
      );
    },
  );

  it('preempts one sequence at most for each request that gets its first slot, and of a request each once before any twice', () => {
    fc.assert(
      fc.property(anyArrivals, fc.integer({ min: 1, max: 6 }), (arrivals, maxNumSeqs) => {
        const preemptions = new Map<number, number>();
        const timesOf = ({ id }: NewRequest): number => preemptions.get(id) ?? 0;
        let before: readonly NewRequest[] = [];
        runArrivals(arrivals, { ...ROOMY, maxNumSeqs }, (holding, waiting, victims) => {
          // A request whose samples with a slot have ended has none any more.
          const unfinished = before.filter((one) => holding.includes(one) || waiting.includes(one));
          const hadSlot = new Set(unfinished.map(({ group }) => group));
          const entered = new Set(holding.map(({ group }) => group).filter((group) => !hadSlot.has(group)));
          assert(victims.length <= entered.size);
          for (const victim of victims) {
            const rivals = before.filter(({ group }) => group === victim.group);
            const spared = rivals.filter((one) => holding.includes(one) && !victims.includes(one));
            for (const one of spared) assert(timesOf(victim) <= timesOf(one));
          }
          for (const victim of victims) preemptions.set(victim.id, timesOf(victim) + 1);
          before = holding;
        });
      }),
    );
  });

  it('gives every request the same tokens as alone, whenever they come and however short blocks are', () => {
    fc.assert(
      fc.property(anyArrivals, anyConfig, (arrivals, config) => {
        const outputs = runArrivals(arrivals, config, () => {});
        for (const one of arrivals.flatMap(({ samples }) => samples)) {
          const alone = new Scheduler(CONFIG);
          alone.add(one);
          expect(outputs.get(one.id)).toEqual(runToEnd(alone, CONFIG).get(one.id));
        }
      }),
      { numRuns: 40 },
    );
  });
});

function rowsOf(tokenIds: readonly number[]): Logprobs {
  const zeros = tokenIds.map(() => 0);
  return { tokenIds, logprobs: zeros, ranks: zeros, numTop: 0, topIds: [], topLogprobs: [] };
}
