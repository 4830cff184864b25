// One step may bring the tokens of hundreds of samples: handing them over leaves turns of the event loop to others, and
// what happens in those turns holds.

import { afterEach, beforeEach, expect, it } from 'vitest';
import type { EndedSample } from '../../src/engine/inference-engine.ts';
import { busyFor, turnsDuring } from '../helpers/turns.ts';
import { until } from '../helpers/until.ts';
import { isIdle, startTestServer, type TestServer } from '../server/test-server.ts';

const N = 128;
/** All of it takes half a second: that a client has left is noticed after a tenth. */
const MS_A_SAMPLE = 4;

let svc: TestServer;
let reasons: EndedSample['reason'][];
let onEnd: () => void;
let onNextToken: () => void;
beforeEach(async () => {
  svc = await startTestServer();
  reasons = [];
  onEnd = () => {};
  onNextToken = () => {};
  svc.engine.observe({
    step() {},
    prompt() {},
    firstToken() {},
    nextToken: () => onNextToken(),
    promptEnded() {},
    sampleEnded({ reason }) {
      reasons.push(reason);
      busyFor(MS_A_SAMPLE);
      onEnd();
    },
  });
});
afterEach(() => svc.close());

function ask(signal?: AbortSignal): Promise<unknown> {
  const body = { model: 'tiny', prompt: 'a', n: N, max_tokens: 1, ignore_eos: true, temperature: 1 };
  return svc.client.completions.create(body, { signal });
}

function times(reason: EndedSample['reason']): number {
  return reasons.filter((one) => one === reason).length;
}

it('handing over the tokens of many samples leaves turns to others', async () => {
  const bothEnds = new Promise<void>((resolve) => {
    onEnd = () => {
      if (reasons.length === N) resolve();
    };
  });
  const answer = ask();
  await until(() => reasons.length > 0);
  expect(reasons.length).toBeLessThan(N / 4);
  expect(await turnsDuring(bothEnds)).toBeGreaterThan(N / 8);
  await answer;
  expect(times('length')).toBe(N);
});

it('a client that leaves while its tokens are being handed over gets no more of them', async () => {
  const controller = new AbortController();
  onEnd = () => {
    if (reasons.length === 5) controller.abort();
  };
  await expect(ask(controller.signal)).rejects.toThrow('aborted');
  await until(() => reasons.length === N);
  expect(times('length')).toBeGreaterThanOrEqual(5);
  expect(times('abort')).toBe(N - times('length'));
  expect(times('abort')).toBeGreaterThan(0);
  await until(() => isIdle(svc.engine));
  expect(reasons).toHaveLength(N);
});

it('tokens of later steps wait for those of earlier ones', async () => {
  const body = { model: 'tiny', prompt: 'a', ignore_eos: true, seed: 1 };
  // With each that ends, the tokens of the others move to other places of a step.
  const texts = () =>
    Promise.all(
      [4, 8, 12, 16, 20, 24, 28].map(async (max_tokens) => {
        const { choices } = await svc.client.completions.create({ ...body, max_tokens });
        return choices[0]?.text;
      }),
    );
  const undisturbed = await texts();
  // Several steps have ended before the tokens of one are handed over.
  onNextToken = () => busyFor(5);
  expect(await texts()).toEqual(undisturbed);
});

it('an engine that is closed while it hands tokens over fails the rest', async () => {
  onEnd = () => {
    if (reasons.length === 5) void svc.engine.close();
  };
  await expect(ask()).rejects.toThrow('has stopped');
  expect([times('length'), times('error')]).toEqual([5, N - 5]);
});
