// Every sampling parameter as a program sees it: what it does to an answer, and what is refused.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { InvalidRequestError, LLM, type SamplingInput } from '../../src/index.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { TINY_EOS_ID, TINY_VOCAB_SIZE, tinyTokenizer } from '../fixtures/tiny-tokenizer.ts';
import { EMOJI, EMOJI_IDS, EMOJI_TOKENS, hasHalfCharacter } from '../helpers/emoji.ts';

let folder: string;
let llm: LLM;
beforeAll(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-parameters-'));
  writeTinyModel(folder, { seed: 3 });
  llm = new LLM({ model: folder, maxNumSeqs: 8 });
});
afterAll(async () => {
  await llm.close();
  rmSync(folder, { recursive: true });
});

const PROMPT = Array.from({ length: 40 }, (_, index) => 10 + ((index * 7) % 90));
const GREEDY = { temperature: 0, max_tokens: 10, ignore_eos: true };

async function complete(params: SamplingInput, prompt: readonly number[] = PROMPT) {
  const [output] = await llm.generate([prompt], params);
  return output!;
}

async function tokensOf(params: SamplingInput): Promise<readonly number[]> {
  return (await complete({ ...GREEDY, ...params })).outputs[0]!.token_ids;
}

describe('biases, penalties and restrictions', () => {
  it('logit_bias makes a token certain, or impossible', async () => {
    expect(await tokensOf({ logit_bias: { 77: 100 } })).toEqual(new Array(10).fill(77));
    const [first] = await tokensOf({});
    expect((await tokensOf({ logit_bias: { [first!]: -100 } }))[0]).not.toBe(first);
  });

  it('allowed_token_ids lets nothing else through', async () => {
    const allowed = [50, 60, 70];
    const ids = await tokensOf({ allowed_token_ids: allowed, temperature: 1.5 });
    expect(ids.every((id) => allowed.includes(id))).toBe(true);
  });

  it.each([1e38, 1e39, 1e300])('allowed_token_ids does so at a temperature of %d', async (temperature) => {
    const allowed = [50, 60, 70];
    const ids = await tokensOf({ allowed_token_ids: allowed, temperature, seed: 1, max_tokens: 40 });
    expect(new Set(ids)).toEqual(new Set(allowed));
  });

  it.each([1e-300, 1e-40, 1e40, 1e300])(
    'a repetition penalty of %d leaves forbidden what is',
    async (repetition_penalty) => {
      const ids = await tokensOf({ repetition_penalty, allowed_token_ids: [50, 60, 70] });
      expect(ids.every((id) => [50, 60, 70].includes(id))).toBe(true);
    },
  );

  it('a presence penalty asks for something new, a negative one for the same again', async () => {
    const logit_bias = { 77: 50, 78: 49 };
    const varied = await tokensOf({ logit_bias, presence_penalty: 2 });
    const steady = await tokensOf({ logit_bias, presence_penalty: -2 });
    expect(new Set(varied.slice(0, 2))).toEqual(new Set([77, 78]));
    expect(new Set(steady).size).toBe(1);
  });

  it('a frequency penalty makes tokens take turns', async () => {
    const ids = await tokensOf({ logit_bias: { 77: 50, 78: 49.5 }, frequency_penalty: 2 });
    expect(ids.filter((id) => id === 77).length).toBe(5);
    expect(ids.filter((id) => id === 78).length).toBe(5);
  });

  it('a repetition penalty counts the prompt too', async () => {
    const [first] = await tokensOf({});
    const params = { ...GREEDY, max_tokens: 1, repetition_penalty: 1000 };
    const seen = await complete(params, [...PROMPT, first!]);
    const again = await complete({ ...params, repetition_penalty: 1 }, [...PROMPT, first!]);
    // Positive logits of seen tokens shrink to nothing: what comes now was never seen.
    expect([...PROMPT, first]).not.toContain(seen.outputs[0]!.token_ids[0]);
    expect(again.outputs[0]!.token_ids).toHaveLength(1);
  });

  it('a bad word never comes, though its first tokens do', async () => {
    const free = await complete({ ...GREEDY, max_tokens: 16 });
    const text = free.outputs[0]!.text;
    const word = text.slice(3, 6);
    expect(word.length).toBe(3);
    const { outputs } = await complete({ ...GREEDY, max_tokens: 16, bad_words: [word] });
    expect(outputs[0]!.token_ids).not.toEqual(free.outputs[0]!.token_ids);
  });

  it('min_tokens keeps end tokens and stop tokens away for so long', async () => {
    const params = {
      temperature: 0,
      max_tokens: 20,
      logit_bias: { [TINY_EOS_ID]: 100, 90: 99 },
      stop_token_ids: [90],
    };
    const early = await complete(params);
    expect(early.outputs[0]!.token_ids).toEqual([TINY_EOS_ID]);
    const late = await complete({ ...params, min_tokens: 6 });
    expect(late.outputs[0]).toMatchObject({ finish_reason: 'stop', stop_reason: null });
    expect(late.outputs[0]!.token_ids).toHaveLength(7);
    expect(late.outputs[0]!.token_ids.slice(0, 6)).not.toContain(90);
  });

  it('detokenize false gives tokens and no text', async () => {
    const { outputs } = await complete({ ...GREEDY, detokenize: false });
    expect(outputs[0]!.text).toBe('');
    expect(outputs[0]!.token_ids).toHaveLength(10);
  });

  it('truncate_prompt_tokens keeps the end of the prompt', async () => {
    const cut = await complete({ ...GREEDY, truncate_prompt_tokens: 12 });
    expect(cut.prompt_token_ids).toEqual(PROMPT.slice(-12));
    const long = Array.from({ length: 5000 }, (_, index) => 5 + (index % 200));
    const fitting = await complete({ ...GREEDY, truncate_prompt_tokens: -1 }, long);
    expect(fitting.outputs[0]!.token_ids).toHaveLength(10);
    expect(long.slice(-fitting.prompt_token_ids.length)).toEqual(fitting.prompt_token_ids);
  });
});

describe('log-probabilities', () => {
  it('name the token that came first, then the most probable, and sum up', async () => {
    const { outputs } = await complete({
      temperature: 1.5,
      seed: 4,
      max_tokens: 8,
      ignore_eos: true,
      logprobs: 3,
    });
    const { logprobs, token_ids, cumulative_logprob } = outputs[0]!;
    expect(logprobs).toHaveLength(8);
    let sum = 0;
    for (const [index, position] of logprobs!.entries()) {
      const [first, ...rest] = [...position];
      expect(first![0]).toBe(token_ids[index]);
      expect(rest.length).toBeGreaterThanOrEqual(2);
      expect(position.size).toBe(first![1].rank <= 3 ? 3 : 4);
      sum += first![1].logprob;
    }
    expect(cumulative_logprob).toBeCloseTo(sum, 6);
  });

  it('of tokens that are named have their rank among all', async () => {
    const other = new LLM({ model: folder, maxLogprobs: -1 });
    onTestFinished(() => other.close());
    const ids = [3, 77, 5];
    const greedy = { ...GREEDY, max_tokens: 1 };
    const [named] = await other.generate([PROMPT], { ...greedy, logprobs: 1, logprob_token_ids: ids });
    const [all] = await other.generate([PROMPT], { ...greedy, logprobs: -1 });
    const ranks = [named, all].map((output) => {
      const [position] = output!.outputs[0]!.logprobs!;
      return ids.map((id) => position!.get(id)?.rank);
    });
    expect(ranks[0]).toEqual(ranks[1]);
  });

  it('are, of requests that run together, those that each has alone, whatever they ask for', async () => {
    const asked: readonly SamplingInput[] = [
      { logit_bias: { 9: 1 } },
      { logprobs: 1, logprob_token_ids: [3, 77, 5] },
      { logprobs: 1, logprob_token_ids: [8, 2, 40] },
      { logprobs: 2 },
      { logprobs: 1, logprob_token_ids: [3, 77, 5], repetition_penalty: 1.5 },
      { logprobs: 0 },
      { logprobs: 2, presence_penalty: 1 },
    ].map((one) => ({ ...GREEDY, ...one }));
    const prompts = asked.map((_, index) => PROMPT.slice(index));
    const together = await llm.generate(prompts, asked);
    for (const [index, params] of asked.entries()) {
      const alone = await complete(params, prompts[index]);
      expect(together[index]!.outputs).toEqual(alone.outputs);
    }
  });

  it('are those of the model, whatever bias and temperature do', async () => {
    const [plain, changed] = await Promise.all([
      complete({ ...GREEDY, max_tokens: 1, logprobs: 5 }),
      complete({
        temperature: 0.3,
        max_tokens: 1,
        logprobs: 5,
        logit_bias: { 77: 100 },
        presence_penalty: 2,
      }),
    ]);
    const top = [...plain.outputs[0]!.logprobs![0]!].slice(0, 5);
    expect([...changed.outputs[0]!.logprobs![0]!].slice(1)).toEqual(top);
    expect(changed.outputs[0]!.logprobs![0]!.get(77)!.logprob).toBeLessThan(0);
  });

  it('of the prompt have one entry a token, null for the first, once for all samples', async () => {
    const params = { temperature: 1, seed: 1, n: 3, max_tokens: 2, ignore_eos: true };
    const asked = await complete({ ...params, prompt_logprobs: 2 });
    const unasked = await complete(params);
    expect(asked.prompt_logprobs).toHaveLength(PROMPT.length);
    expect(asked.prompt_logprobs![0]).toBeNull();
    for (const [index, position] of asked.prompt_logprobs!.slice(1).entries()) {
      expect([...position!.keys()][0]).toBe(PROMPT[index + 1]);
    }
    expect(unasked.prompt_logprobs).toBeNull();
    expect(unasked.outputs).toEqual(asked.outputs);
    expect(asked.outputs[0]!.logprobs).toBeNull();
  });

  it('of a long prompt are the same in one step and in many, beside another prompt', async () => {
    const prompts = [150, 100].map((length) => Array.from({ length }, (_, index) => 5 + ((index * 11) % 97)));
    const inSteps = new LLM({ model: folder, maxNumBatchedTokens: 40, maxNumSeqs: 8 });
    onTestFinished(() => inSteps.close());
    const params = { ...GREEDY, max_tokens: 1, prompt_logprobs: 2 };
    const [whole, parted] = await Promise.all([llm, inSteps].map((one) => one.generate(prompts, params)));
    expect(whole!.map((output) => output.prompt_logprobs)).toEqual(
      parted!.map((output) => output.prompt_logprobs),
    );
  });

  it('of the prompt are computed even where the cache holds it', async () => {
    await complete(GREEDY);
    const cached = await complete(GREEDY);
    const scored = await complete({ ...GREEDY, prompt_logprobs: 0 });
    expect(cached.num_cached_tokens).toBe(32);
    expect(scored.num_cached_tokens).toBe(0);
    expect(scored.outputs[0]!.token_ids).toEqual(cached.outputs[0]!.token_ids);
  });

  it('cover the vocabulary with -1 where maxLogprobs allows it', async () => {
    const other = new LLM({ model: folder, maxLogprobs: -1 });
    const [output] = await other.generate([PROMPT], { ...GREEDY, max_tokens: 1, logprobs: -1 });
    const position = output!.outputs[0]!.logprobs![0]!;
    expect(position.size).toBe(TINY_VOCAB_SIZE);
    const total = [...position.values()].reduce((sum, { logprob }) => sum + Math.exp(logprob), 0);
    expect(total).toBeCloseTo(1, 4);
    await other.close();
  });
});

describe('what a request may not ask', () => {
  it.each([
    [{ logprobs: 21 }, 'logprobs', /at most 20, got 21; maxLogprobs sets the limit/],
    [{ logprobs: -1 }, 'logprobs', /at most 20, got -1 \(the whole vocabulary/],
    [{ prompt_logprobs: 21 }, 'prompt_logprobs', /at most 20, got 21/],
    [{ logit_bias: { 100000: 1 } }, 'logit_bias', /from 0 to \d+, got 100000/],
    [{ allowed_token_ids: [100000] }, 'allowed_token_ids', /got 100000 at index 0/],
    [{ stop_token_ids: [100000] }, 'stop_token_ids', /got 100000 at index 0/],
    [{ truncate_prompt_tokens: 100000 }, 'truncate_prompt_tokens', /at most .* got 100000/],
    [{ allowed_token_ids: [TINY_EOS_ID], min_tokens: 1 }, 'allowed_token_ids', /no token could be sampled/],
    [{ min_tokens: 11 }, 'min_tokens', /at most 10, the most tokens that the answer may have, got 11/],
  ])('refuses %j', async (params, param, message) => {
    const refusal = complete({ ...GREEDY, ...params });
    await expect(refusal).rejects.toThrow(InvalidRequestError);
    await expect(refusal).rejects.toThrow(message);
    await expect(refusal).rejects.toMatchObject({ param });
  });
});

describe('the defaults of generation_config.json', () => {
  it('apply where a program gives no parameters, and max_new_tokens of the user limits every answer', async () => {
    const other = new LLM({
      model: folder,
      overrideGenerationConfig: { max_new_tokens: 5, temperature: 0, repetition_penalty: 1.5 },
    });
    const [byDefault] = await other.generate([PROMPT]);
    const params = { temperature: 0, max_tokens: 16, repetition_penalty: 1.5 };
    const [asked] = await other.generate([PROMPT], params);
    expect(byDefault!.outputs).toEqual(asked!.outputs);
    expect(asked!.outputs[0]!.token_ids).toHaveLength(5);
    expect(asked!.outputs[0]!.finish_reason).toBe('length');
    await other.close();
  });
});

describe('the suppressed tokens of generation_config.json', () => {
  it.each([false, true])('are in no answer, without a tokenizer: %s', async (skipTokenizerInit) => {
    const [usual] = await tokensOf({});
    const other = new LLM({
      model: folder,
      skipTokenizerInit,
      // No model has the first and the last.
      overrideGenerationConfig: { suppress_tokens: [-1, usual!, 1_000_000] },
    });
    onTestFinished(() => other.close());
    const [all, biased, certain] = await other.generate(new Array(3).fill(PROMPT), [
      GREEDY,
      { ...GREEDY, logit_bias: { [usual!]: 100 } },
      { ...GREEDY, allowed_token_ids: [usual!, 60] },
    ]);
    for (const output of [all, biased]) {
      expect(output!.outputs[0]!.token_ids).toHaveLength(10);
      expect(output!.outputs[0]!.token_ids).not.toContain(usual);
    }
    expect(certain!.outputs[0]!.token_ids).toEqual(new Array(10).fill(60));
  });
});

describe('end tokens that the model has not', () => {
  it('are kept away by min_tokens without harm', async () => {
    const other = new LLM({
      model: folder,
      overrideGenerationConfig: { eos_token_id: [-1, TINY_EOS_ID, 1_000_000] },
    });
    onTestFinished(() => other.close());
    const logit_bias = { [TINY_EOS_ID]: 100 };
    const [output] = await other.generate([PROMPT], {
      ...GREEDY,
      ignore_eos: false,
      min_tokens: 3,
      logit_bias,
    });
    expect(output!.outputs[0]).toMatchObject({ finish_reason: 'stop', stop_reason: null });
    expect(output!.outputs[0]!.token_ids).toHaveLength(4);
  });
});

describe('texts of characters beyond U+FFFF', () => {
  it('come out whole, whatever stop strings end them', async () => {
    const emojiFolder = mkdtempSync(join(os.tmpdir(), 'svc-emoji-'));
    writeTinyModel(emojiFolder, { seed: 3, tokenizer: tinyTokenizer(EMOJI_TOKENS) });
    const emojiLlm = new LLM({ model: emojiFolder, maxNumSeqs: 8 });
    try {
      const stops = [...EMOJI, ...EMOJI_TOKENS.slice(0, 12)].map((stop, index) => [
        stop,
        'x'.repeat(index + 1),
      ]);
      const params = stops.map((stop, seed) => ({
        stop,
        seed,
        max_tokens: 12,
        ignore_eos: true,
        allowed_token_ids: [...EMOJI_IDS],
      }));
      const outputs = await emojiLlm.generate(new Array(stops.length).fill(PROMPT), params);
      const texts = outputs.map(({ outputs: [first] }) => first!.text);
      expect(texts.some((text) => text.length > 10)).toBe(true);
      expect(texts.filter(hasHalfCharacter)).toEqual([]);
    } finally {
      await emojiLlm.close();
      rmSync(emojiFolder, { recursive: true });
    }
  });

  it.each(['stop', 'bad_words'])('cannot be asked for by halves in %s', async (field) => {
    await expect(complete({ [field]: ['\ude00'] })).rejects.toThrow(`${field}[0] must not`);
  });
});
