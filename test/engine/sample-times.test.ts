import { expect, it } from 'vitest';
import { type EndedSample, promptEnds, SampleTimes } from '../../src/engine/sample-times.ts';
import { newRequest } from '../helpers/new-request.ts';
import { busyFor } from '../helpers/turns.ts';

/** The engine thread's clock has another zero. */
const QUEUED_AT = 5000;

interface Seen {
  readonly times: SampleTimes;
  readonly first: number[];
  readonly next: number[];
  readonly ended: EndedSample[];
}

/** Of a sample whose request came a second ago. */
function sample(): Seen {
  const first: number[] = [];
  const next: number[] = [];
  const ended: EndedSample[] = [];
  const observer = {
    step() {},
    prompt() {},
    firstToken: (seconds: number) => void first.push(seconds),
    nextToken: (seconds: number) => void next.push(seconds),
    sampleEnded: (one: EndedSample) => void ended.push(one),
    promptEnded() {},
  };
  const { promptTokenIds, stop } = newRequest({ promptTokenIds: [1, 2], stop: { maxTokens: 4 } });
  const facts = { arrivedAt: performance.now() - 1000, promptTokenIds, stop };
  return { times: new SampleTimes(observer, facts), first, next, ended };
}

it('a sample counts from the arrival of its request, the wait for a place with the wait for a seat', () => {
  const { times, first, next, ended } = sample();
  busyFor(20);
  times.sent();
  times.output(QUEUED_AT + 300, 1, {
    queuedAt: QUEUED_AT,
    loadingAt: null,
    scheduledAt: QUEUED_AT + 100,
    numPrefillTokens: 1,
  });
  times.output(QUEUED_AT + 700, 2, null);
  times.end('length');
  expect(first[0]).toBeGreaterThanOrEqual(1.02);
  expect(next).toEqual([0.4]);
  const [end] = ended;
  expect(end).toMatchObject({
    reason: 'length',
    promptTokens: 2,
    prefillTokens: 1,
    maxTokens: 4,
    generationTokens: 3,
    prefillSeconds: 0.2,
    decodeSeconds: 0.4,
    inferenceSeconds: 0.6,
  });
  expect(end!.endToEndSeconds).toBeGreaterThanOrEqual(1.02);
  expect(end!.queueSeconds).toBeGreaterThanOrEqual(0.12);
  expect(end!.queueSeconds).toBeLessThan(end!.endToEndSeconds);
});

it('tokens of an answer that is resumed, which come together, have no time between them', () => {
  const { times, next } = sample();
  times.sent();
  times.output(QUEUED_AT, 1, {
    queuedAt: QUEUED_AT,
    loadingAt: null,
    scheduledAt: QUEUED_AT,
    numPrefillTokens: 2,
  });
  times.output(QUEUED_AT, 5, null);
  times.output(QUEUED_AT + 50, 1, null);
  expect(next).toEqual([0.05]);
});

it('only the first end of a sample counts; one that never had a seat has no times of the engine', () => {
  const { times, ended } = sample();
  times.end('abort');
  times.end('error');
  expect(ended).toHaveLength(1);
  expect(ended[0]).toMatchObject({
    reason: 'abort',
    prefillTokens: null,
    generationTokens: 0,
    queueSeconds: null,
    prefillSeconds: null,
    decodeSeconds: null,
    inferenceSeconds: null,
  });
});

it('a prompt has ended when all its samples have, with the tokens of the longest', () => {
  const ends: number[] = [];
  const onEnd = promptEnds(3, (mostTokens) => void ends.push(mostTokens));
  for (const generationTokens of [4, 9]) onEnd({ generationTokens } as EndedSample);
  expect(ends).toEqual([]);
  onEnd({ generationTokens: 2 } as EndedSample);
  expect(ends).toEqual([9]);
});
