// A signal ends any call of `LLM`, and frees what the engine holds for it.

import { getEventListeners } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LLM } from '../../src/index.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';

const NUM_SEATS = 3;
/** Takes many times longer than a test may. */
const ENDLESS = { max_tokens: 150_000, ignore_eos: true };
const SHORT = { temperature: 0, max_tokens: 2, ignore_eos: true };
const CHAT = [{ role: 'user', content: 'Hello' }];

let folder: string;
let llm: LLM;
beforeAll(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-aborts-'));
  writeTinyModel(folder, { seed: 3, config: { max_position_embeddings: 200_000 } });
  llm = new LLM({ model: folder, maxNumSeqs: NUM_SEATS });
});
afterAll(async () => {
  await llm.close();
  rmSync(folder, { recursive: true });
});

/** Passes only where nothing else is in the engine: each sample needs a seat of its own to begin. */
async function allSeatsAreFree(): Promise<void> {
  const begun = new Set<number>();
  for await (const { index } of llm.stream('abc', { ...ENDLESS, n: NUM_SEATS })) {
    if (begun.add(index).size === NUM_SEATS) break;
  }
}

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}

type Call = (llm: LLM, signal: AbortSignal) => Promise<unknown>;

const CALLS: readonly (readonly [string, Call])[] = [
  ['generate', (llm, signal) => llm.generate(['abc', 'def'], ENDLESS, { signal })],
  ['chat', (llm, signal) => llm.chat([CHAT, CHAT], ENDLESS, { signal })],
  ['stream', (llm, signal) => drain(llm.stream('abc', ENDLESS, { signal }))],
  ['streamChat', (llm, signal) => drain(llm.streamChat(CHAT, ENDLESS, { signal }))],
  [
    'beamSearch',
    (llm, signal) =>
      llm.beamSearch('abc', { beam_width: 2, max_tokens: 150_000, ignore_eos: true }, { signal }),
  ],
];

describe.each(CALLS)('LLM.%s', (_, call) => {
  it('rejects with the reason of its signal, frees the engine, and leaves the signal as it was', async () => {
    const controller = new AbortController();
    const pending = expect(call(llm, controller.signal)).rejects.toBe('enough');
    // Requests begin in their order: when this one has been answered, those before it run.
    await llm.generate('abc', SHORT);
    controller.abort('enough');
    await pending;
    await allSeatsAreFree();
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });

  it('does nothing for a signal that is aborted already', async () => {
    await expect(call(llm, AbortSignal.abort('no'))).rejects.toBe('no');
    await allSeatsAreFree();
  });
});

it('no call waits for the model to load once its signal is aborted', async () => {
  const loading = new LLM({ model: folder });
  const controller = new AbortController();
  const calls = CALLS.map(([, call]) => expect(call(loading, controller.signal)).rejects.toBe('too slow'));
  controller.abort('too slow');
  await Promise.all(calls);
  await loading.close();
});

it('a time limit ends a batch with many prompts that have not begun', async () => {
  const prompts = Array.from({ length: 100 }, (_, index) => `prompt ${index}`);
  const call = llm.generate(prompts, ENDLESS, { signal: AbortSignal.timeout(50) });
  await expect(call).rejects.toThrow(expect.objectContaining({ name: 'TimeoutError' }));
  await allSeatsAreFree();
});

it('one signal may be given to any number of calls at once', async () => {
  const warnings: Error[] = [];
  const collect = (warning: Error): void => void warnings.push(warning);
  process.on('warning', collect);
  const { signal } = new AbortController();
  const calls = Array.from({ length: 30 }, () => llm.generate('abc', SHORT, { signal }));
  const streams = Array.from({ length: 30 }, () => drain(llm.stream('abc', SHORT, { signal })));
  await Promise.all([...calls, ...streams]);
  process.off('warning', collect);
  expect(warnings).toEqual([]);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
