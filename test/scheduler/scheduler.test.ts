import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RequestStates } from '../../src/runner/request-states.ts';
import type { Logprobs } from '../../src/sampling/logprobs.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import {
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
};

const anyLengths = {
  promptLength: fc.integer({ min: 1, max: 60 }),
  maxTokens: fc.integer({ min: 1, max: 30 }),
};

/** Small enough that seats, budget and blocks run out. */
const anyConfig: fc.Arbitrary<SchedulerConfig> = fc.record({
  maxNumSeqs: fc.integer({ min: 1, max: 6 }),
  maxNumBatchedTokens: fc.integer({ min: 6, max: 50 }),
  numBlocks: fc.integer({ min: 6, max: 20 }),
  blockSize: fc.constant(16),
  enablePrefixCaching: fc.boolean(),
});

function request(id: number, promptLength: number, maxTokens: number): NewRequest {
  const promptTokenIds = Array.from({ length: promptLength }, (_, index) => ((id % 3) * 31 + index) % 97);
  return newRequest({ id, promptTokenIds, stop: { maxTokens } });
}

/** An executor without a model: the token that it samples is a function of what the step computes, as logits are. */
class FakeModel {
  readonly requests = new RequestStates();
  readonly #newest = new Map<number, number>();

  run(step: ScheduledStep): StepResult {
    this.requests.apply(step);
    return resultOf(step, ({ requestId, tokenIds, firstPosition }) => {
      const last = tokenIds.at(-1)!;
      const known = last === PENDING_TOKEN ? this.#newest.get(requestId)! : last;
      const sampled = (known * 7 + firstPosition + tokenIds.length) % 97;
      this.#newest.set(requestId, sampled);
      return sampled;
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
    expect(numSteps).toBeLessThan(10_000);
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

/** The same with up to `maxInFlight` steps in flight while one is planned; `abortions` names requests by step. */
function runPipelined(
  scheduler: Scheduler,
  config: SchedulerConfig,
  maxInFlight: number,
  abortions: ReadonlyMap<number, number> = new Map(),
): Map<number, number[]> {
  const model = new FakeModel();
  const outputs = new Map<number, number[]>();
  const inFlight: InFlightStep[] = [];
  for (let numSteps = 0; scheduler.hasUnfinished || inFlight.length > 0; numSteps += 1) {
    expect(numSteps).toBeLessThan(10_000);
    const abortion = abortions.get(numSteps);
    if (abortion !== undefined) scheduler.abort(abortion);
    const step = scheduler.schedule();
    const isEmpty = step.sequences.length === 0;
    if (!isEmpty) {
      inFlight.push(launch(step, model, inFlight));
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

function launch(step: ScheduledStep, model: FakeModel, inFlight: readonly InFlightStep[]): InFlightStep {
  const result = model.run(step);
  const owners = new Map<number, number[]>();
  for (const { requestId, firstPosition } of step.sequences) {
    const blocks = model.requests.blocksOf(requestId);
    for (const block of blocks) owners.set(block, [...(owners.get(block) ?? []), requestId]);
    // Nobody else writes into what a step in flight uses.
    for (const block of blocks.slice(Math.floor(firstPosition / CONFIG.blockSize))) {
      for (const earlier of inFlight) {
        expect(earlier.owners.get(block) ?? [requestId]).toEqual([requestId]);
      }
    }
  }
  return { step, result, owners };
}

function checkStep(
  step: ScheduledStep,
  { requests }: FakeModel,
  scheduler: Scheduler,
  config: SchedulerConfig,
): void {
  expect(step.numTokens).toBeGreaterThan(0);
  expect(step.numTokens).toBeLessThanOrEqual(config.maxNumBatchedTokens);
  expect(step.sequences.length).toBeLessThanOrEqual(config.maxNumSeqs);
  // A block may be shared where it is read; where this step writes it has one owner.
  const written = step.sequences.flatMap(({ requestId, firstPosition }) =>
    requests.blocksOf(requestId).slice(Math.floor(firstPosition / config.blockSize)),
  );
  expect(new Set(written).size).toBe(written.length);
  for (const { requestId, firstPosition, tokenIds } of step.sequences) {
    const numSlots = requests.blocksOf(requestId).length * config.blockSize;
    expect(numSlots).toBeGreaterThanOrEqual(firstPosition + tokenIds.length);
  }
  expect(scheduler.stats.running).toBeLessThanOrEqual(config.maxNumSeqs);
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

  it('admits no more requests than there are seats', () => {
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
        scheduler.add({ ...request(id, 8, 40), ...heavy, cacheSalt: `${id}` });
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

  it('gives a caller who comes late the next seat, however many another one waits for', () => {
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

  it.each([1, 2, 3])(
    'gives every request the same tokens as alone with %i steps in flight, whatever ends or leaves meanwhile',
    (maxInFlight) => {
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
            const pipelined = new Scheduler(config);
            for (const one of requests) pipelined.add(one);
            const abortions = new Map(
              shapes.flatMap(({ abortedAt }, id) => (abortedAt === null ? [] : [[abortedAt, id]])),
            );
            const outputs = runPipelined(pipelined, config, maxInFlight, abortions);
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
        ...sequences.map(({ requestId, newBlocks }) => [requestId, newBlocks.length]),
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
      sequences: [{ requestId: 2, newBlocks: [expect.any(Number), expect.any(Number)] }],
    });
  });

  it('takes several tokens of one step, up to the one that ends the request', () => {
    const scheduler = new Scheduler(CONFIG);
    scheduler.add(newRequest({ id: 1, promptTokenIds: [1, 2], stop: { eosTokenId: 9, maxTokens: 5 } }));
    const give = (...tokenIds: number[]): TokenOutput[] => {
      const step = scheduler.schedule();
      const logprobs = rowsOf(tokenIds);
      return scheduler.update(step, {
        outputs: [{ kind: 'tokens', tokenIds, logprobs }],
        promptLogprobs: [[]],
        resumedLogprobs: [[]],
      });
    };
    expect(give(3, 4)).toMatchObject([{ tokenIds: [3, 4], finish: null, logprobs: { tokenIds: [3, 4] } }]);
    expect(give(5)).toMatchObject([{ tokenIds: [5], finish: null }]);
    const last = give(6, 9, 7);
    expect(last).toMatchObject([{ tokenIds: [6, 9], finish: { reason: 'stop', stopTokenId: null } }]);
    expect(last[0]!.logprobs!.tokenIds).toEqual([6, 9]);
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

  it('scores every prompt token but the first exactly once, in chunks and after preemptions', () => {
    const config = { ...CONFIG, maxNumBatchedTokens: 10, numBlocks: 6 };
    const scheduler = new Scheduler(config);
    const model = new FakeModel();
    for (const id of [0, 1, 2]) {
      scheduler.add({ ...request(id, 37, 25), numPromptLogprobs: 2, mayReadCache: false });
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

function rowsOf(tokenIds: readonly number[]): Logprobs {
  const zeros = tokenIds.map(() => 0);
  return { tokenIds, logprobs: zeros, ranks: zeros, numTop: 0, topIds: [], topLogprobs: [] };
}
