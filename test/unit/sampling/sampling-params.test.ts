import { describe, expect, it } from 'vitest';
import { InvalidRequestError, NotAvailableError } from '../../../src/errors.ts';
import { resolveSamplingParams } from '../../../src/sampling/sampling-params.ts';

describe('resolveSamplingParams', () => {
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
      max_tokens: null,
      skip_special_tokens: true,
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
    [{ temperature: 0, n: 2 }, 'n'],
  ])('refuses %j and names the field', (input, param) => {
    const attempt = () => resolveSamplingParams(input);
    expect(attempt).toThrow(InvalidRequestError);
    expect(attempt).toThrow(new RegExp(param));
    expect(attempt).toThrow(expect.objectContaining({ param, status: 400 }));
  });

  it('says of a known field whose feature is missing that it is not available yet', () => {
    const input: object = { presence_penalty: 0.5 };
    expect(() => resolveSamplingParams(input)).toThrow(NotAvailableError);
    expect(() => resolveSamplingParams(input)).toThrow(/presence_penalty is not available yet/);
  });

  it('accepts a missing feature set to the value that means off', () => {
    const input: object = { presence_penalty: 0, bad_words: [], repetition_penalty: 1 };
    expect(resolveSamplingParams(input).n).toBe(1);
  });
});
