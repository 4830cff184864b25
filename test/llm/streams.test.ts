// `LLM.stream` and `LLM.streamChat`: the same answers as in a batch, as they are made.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CompletionDelta, LLM, type SamplingInput } from '../../src/index.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';

const GREEDY = { temperature: 0, max_tokens: 40, ignore_eos: true };
const ENDLESS = { max_tokens: 150_000, ignore_eos: true };

let folder: string;
let llm: LLM;
beforeAll(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-streams-'));
  writeTinyModel(folder, { seed: 3, config: { max_position_embeddings: 200_000 } });
  llm = new LLM({ model: folder, maxNumSeqs: 2 });
});
afterAll(async () => {
  await llm.close();
  rmSync(folder, { recursive: true });
});

async function collect(stream: AsyncIterable<CompletionDelta>): Promise<CompletionDelta[]> {
  const deltas: CompletionDelta[] = [];
  for await (const delta of stream) deltas.push(delta);
  return deltas;
}

/** One sample of a stream, as a batch would give it. */
function sampleOf(deltas: readonly CompletionDelta[], wanted = 0) {
  const own = deltas.filter(({ index }) => index === wanted);
  const { finish_reason, stop_reason } = own.at(-1)!;
  return {
    index: wanted,
    text: own.map(({ text }) => text).join(''),
    token_ids: own.flatMap(({ token_ids }) => token_ids),
    logprobs: own.some(({ logprobs }) => logprobs !== null)
      ? own.flatMap(({ logprobs }) => logprobs ?? [])
      : null,
    finish_reason,
    stop_reason,
  };
}

describe('LLM.stream', () => {
  it.each<[string, SamplingInput]>([
    ['greedy', GREEDY],
    ['with log-probabilities', { ...GREEDY, logprobs: 2 }],
    ['of several samples', { ...GREEDY, temperature: 1, seed: 5, n: 3 }],
    ['with a stop token', { ...GREEDY, temperature: 1, seed: 5, stop_token_ids: [30, 40, 50, 60, 70, 80] }],
  ])('gives piece by piece what generate() gives at once: %s', async (_, params) => {
    const [whole] = await llm.generate('abc', params);
    const deltas = await collect(llm.stream('abc', params));
    expect(deltas.filter(({ finish_reason }) => finish_reason !== null)).toHaveLength(whole!.outputs.length);
    for (const sample of whole!.outputs) {
      const { cumulative_logprob: _sum, ...expected } = sample;
      expect(sampleOf(deltas, sample.index)).toEqual(expected);
    }
  });

  it('yields a token while later ones are not made yet', async () => {
    for await (const { token_ids, finish_reason } of llm.stream([10, 11, 12], ENDLESS)) {
      expect([token_ids.length, finish_reason]).toEqual([1, null]);
      break;
    }
  });

  it('keeps what a slow reader has not taken, and nobody else waits for that reader', async () => {
    const stream = llm.stream('abc', GREEDY);
    const first = await stream.next();
    await llm.generate(['def', 'ghi'], { ...GREEDY, max_tokens: 80 });
    const rest = await collect(stream);
    const [whole] = await llm.generate('abc', GREEDY);
    expect([first.value!, ...rest].flatMap(({ token_ids }) => token_ids)).toEqual(
      whole!.outputs[0]!.token_ids,
    );
  });

  it('yields nothing more after an abort, though more has been made', async () => {
    const controller = new AbortController();
    const stream = llm.stream('abc', GREEDY, { signal: controller.signal });
    await stream.next();
    await llm.generate('def', { ...GREEDY, max_tokens: 80 });
    controller.abort('enough');
    await expect(stream.next()).rejects.toBe('enough');
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  it('refuses in the words of a program', async () => {
    await expect(collect(llm.stream('Hi', { logprobs: 21 }))).rejects.toThrow('maxLogprobs sets the limit');
    const adapter = { name: 'a', path: folder };
    await expect(collect(llm.stream('Hi', {}, { adapter }))).rejects.toThrow(/start .* with enableLora$/);
  });

  it('frees the engine when its loop is left', async () => {
    // Each takes one of two seats: the third could not begin.
    for (let round = 0; round < 3; round += 1) {
      for await (const _ of llm.stream('abc', ENDLESS)) break;
    }
  });

  it.each([
    ['several prompts', () => llm.stream(Object.assign(['a', 'b'])), 'prompt must be a text'],
    ['a field it does not know', () => llm.stream('a', Object.assign({ seeds: 1 })), 'did you mean seed?'],
    [
      'an option it does not have',
      () => llm.stream('a', null, Object.assign({ singal: 1 })),
      'stream() has no option singal; did you mean signal?',
    ],
    [
      'log-probabilities of the prompt',
      () => llm.stream('a', { prompt_logprobs: 1 }),
      'prompt_logprobs cannot be streamed: use generate()',
    ],
  ])('refuses %s', async (_, start, message) => {
    await expect(collect(start())).rejects.toThrow(message);
  });
});

describe('LLM.streamChat', () => {
  it('gives piece by piece what chat() gives at once', async () => {
    const messages = [{ role: 'user', content: 'Hello' }];
    const [whole] = await llm.chat(messages, GREEDY);
    const { cumulative_logprob: _sum, message, ...expected } = whole!.outputs[0]!;
    expect(sampleOf(await collect(llm.streamChat(messages, GREEDY)))).toEqual(expected);
    expect(message?.content).toBe(expected.text);
  });

  it('takes the options of the template', async () => {
    const messages = [{ role: 'user', content: 'Hello' }];
    const options = { addGenerationPrompt: false };
    const [whole] = await llm.chat(messages, GREEDY, options);
    expect(sampleOf(await collect(llm.streamChat(messages, GREEDY, options))).token_ids).toEqual(
      whole!.outputs[0]!.token_ids,
    );
  });
});
