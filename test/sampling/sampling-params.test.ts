import { describe, expect, it } from 'vitest';
import { InvalidRequestError, NotAvailableError } from '../../src/errors.ts';
import { parseSamplingFields } from '../../src/sampling/sampling-fields.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';

describe('sampling parameters', () => {
  it('fills in the protocol defaults', () => {
    expect(resolveSamplingParams({})).toEqual({
      n: 1,
      temperature: 1,
      top_p: 1,
      top_k: 0,
      min_p: 0,
      seed: null,
      stop: [],
      stop_token_ids: [],
      include_stop_str_in_output: false,
      ignore_eos: false,
      min_tokens: 0,
      max_tokens: null,
      presence_penalty: 0,
      frequency_penalty: 0,
      repetition_penalty: 1,
      logit_bias: {},
      allowed_token_ids: null,
      bad_words: [],
      constraint: null,
      logprobs: null,
      prompt_logprobs: null,
      truncate_prompt_tokens: null,
      truncation_side: 'left',
      logprob_token_ids: null,
      repetition_detection: null,
      detokenize: true,
      skip_special_tokens: true,
      spaces_between_special_tokens: true,
    });
  });

  it('prefers the request over the defaults of the model, and those over the protocol', () => {
    const params = resolveSamplingParams({ top_p: 0.5 }, { top_p: 0.9, top_k: 40, temperature: 0.7 });
    expect([params.top_p, params.top_k, params.temperature]).toEqual([0.5, 40, 0.7]);
  });

  it('takes null as left out', () => {
    expect(resolveSamplingParams({ temperature: null, stop: null }, { temperature: 0.3 }).temperature).toBe(
      0.3,
    );
  });

  it('keeps a top_k of more tokens than there are within what a device counts', () => {
    const { top_k } = resolveSamplingParams(parseSamplingFields({ top_k: 2 ** 32 + 1 }));
    // A row for the device would begin anew from 0 behind the largest number of 32 bits.
    expect([...Int32Array.of(top_k)]).toEqual([top_k]);
    expect(top_k).toBeGreaterThan(1_000_000);
  });

  it('switches the filters off for greedy sampling', () => {
    const params = resolveSamplingParams({ temperature: 0, top_p: 0.5, top_k: 3, min_p: 0.2 });
    expect([params.top_p, params.top_k, params.min_p]).toEqual([1, 0, 0]);
  });

  it.each([
    [{ temperature: -0.1 }, 'temperature'],
    [{ temperature: Number.NaN }, 'temperature'],
    [{ top_p: 0 }, 'top_p'],
    [{ top_p: 1.1 }, 'top_p'],
    [{ top_k: -2 }, 'top_k'],
    [{ top_k: 1.5 }, 'top_k'],
    [{ min_p: 2 }, 'min_p'],
    [{ n: 0 }, 'n'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ max_tokens: -3 }, 'max_tokens'],
    [{ seed: 0.5 }, 'seed'],
    [{ stop: '' }, 'stop'],
    [{ stop: ['a', ''] }, 'stop'],
    [{ stop_token_ids: [-1] }, 'stop_token_ids'],
    [{ presence_penalty: 2.1 }, 'presence_penalty'],
    [{ presence_penalty: -2.1 }, 'presence_penalty'],
    [{ frequency_penalty: 3 }, 'frequency_penalty'],
    [{ frequency_penalty: -3 }, 'frequency_penalty'],
    [{ repetition_penalty: 0 }, 'repetition_penalty'],
    [{ repetition_penalty: Number.POSITIVE_INFINITY }, 'repetition_penalty'],
    [{ logit_bias: { x: 1 } }, 'logit_bias'],
    [{ logit_bias: { '-1': 1 } }, 'logit_bias'],
    [{ logit_bias: { 1: Number.NaN } }, 'logit_bias'],
    [{ allowed_token_ids: [] }, 'allowed_token_ids'],
    [{ allowed_token_ids: [-1] }, 'allowed_token_ids'],
    [{ bad_words: ['a', ''] }, 'bad_words'],
    [{ min_tokens: -1 }, 'min_tokens'],
    [{ min_tokens: 5, max_tokens: 4 }, 'min_tokens'],
    [{ logprobs: -2 }, 'logprobs'],
    [{ logprobs: 1.5 }, 'logprobs'],
    [{ prompt_logprobs: -2 }, 'prompt_logprobs'],
    [{ truncate_prompt_tokens: 0 }, 'truncate_prompt_tokens'],
    [{ truncate_prompt_tokens: -2 }, 'truncate_prompt_tokens'],
    [{ stop: 'x', detokenize: false }, 'stop'],
  ])('refuses %j and names the field', (input, param) => {
    const attempt = () => resolveSamplingParams(parseSamplingFields(input));
    expect(attempt).toThrow(InvalidRequestError);
    expect(attempt).toThrow(new RegExp(`^${param}`));
    expect(attempt).toThrow(expect.objectContaining({ param, status: 400 }));
  });

  it('says field, rule and value as a request over HTTP does', () => {
    expect(() => parseSamplingFields({ top_p: 1.1 })).toThrow(/^top_p must be at most 1, got 1\.1$/);
    expect(() => parseSamplingFields({ stop: ['a', 5] })).toThrow(/^stop\[1\] must be a string, got 5$/);
  });

  it('says of a known field whose feature is missing that it is not available yet', () => {
    const input: object = { use_beam_search: true };
    expect(() => parseSamplingFields(input)).toThrow(NotAvailableError);
    expect(() => parseSamplingFields(input)).toThrow(/use_beam_search is not available yet/);
  });

  it('accepts a missing feature set to the value that means off', () => {
    const input: object = { use_beam_search: false, best_of: 1, length_penalty: 1 };
    expect(resolveSamplingParams(parseSamplingFields(input)).n).toBe(1);
  });

  it('cuts biases to what the protocol allows', () => {
    const { logit_bias } = resolveSamplingParams({ logit_bias: { 3: 500, 4: -500, 5: 0.5 } });
    expect(logit_bias).toEqual({ 3: 100, 4: -100, 5: 0.5 });
  });

  it('takes logprobs true as one, false as none and -1 as all', () => {
    const asked = [true, false, -1, 0].map((logprobs) => resolveSamplingParams({ logprobs }).logprobs);
    expect(asked).toEqual([1, null, -1, 0]);
  });

  it('applies the repetition penalty of the model where the request has none', () => {
    const defaults = { repetition_penalty: 1.1 };
    expect(resolveSamplingParams({}, defaults).repetition_penalty).toBe(1.1);
    expect(resolveSamplingParams({ repetition_penalty: 1 }, defaults).repetition_penalty).toBe(1);
  });
});
