import { describe, expect, it } from 'vitest';
import { toEngineConfig } from '../../src/config/llm-options.ts';
import { parseSpeculativeConfig } from '../../src/config/speculative-config.ts';
import { NotAvailableError } from '../../src/errors.ts';

describe('--speculative-config', () => {
  it('asks for nothing where nothing is given', () => {
    expect(parseSpeculativeConfig(null)).toBeNull();
    expect(parseSpeculativeConfig({})).toBeNull();
    expect(parseSpeculativeConfig({ method: null })).toBeNull();
  });

  it('reads n-grams by the names of vLLM, numbers as text too, as dotted flags may give them', () => {
    const lookup = { prompt_lookup_max: '7', prompt_lookup_min: 3 };
    expect(parseSpeculativeConfig({ method: 'ngram', num_speculative_tokens: '8', ...lookup })).toEqual({
      method: 'ngram',
      numSpeculativeTokens: 8,
      promptLookupMax: 7,
      promptLookupMin: 3,
    });
  });

  it.each([
    [{}, 4, 2],
    [{ prompt_lookup_max: 6 }, 6, 6],
    [{ prompt_lookup_min: 3 }, 3, 3],
  ])(
    'has five tokens and n-grams of its own where %j is given',
    (lookup, promptLookupMax, promptLookupMin) => {
      const expected = { method: 'ngram', numSpeculativeTokens: 5, promptLookupMax, promptLookupMin };
      expect(parseSpeculativeConfig({ method: 'ngram', ...lookup })).toEqual(expected);
    },
  );

  it('reads the folder or the name of a draft model', () => {
    const json = { method: 'draft_model', model: 'org/small', num_speculative_tokens: 3 };
    expect(parseSpeculativeConfig(json)).toEqual({
      method: 'draft_model',
      numSpeculativeTokens: 3,
      model: 'org/small',
    });
  });

  it.each([
    [{ method: 'draft_model' }, 'model: is missing: method draft_model needs a folder or a name on the hub'],
    [{ method: 'draft_model', model: 'a', prompt_lookup_max: 3 }, 'are for method ngram: leave them out'],
    [{ method: 'ngram', model: 'a' }, 'method ngram needs no model: leave it out'],
    [{ num_speculative_tokens: 5 }, 'method: is missing: add one of'],
    [{ method: 'n-gram' }, 'unknown method n-gram; did you mean ngram?'],
    [{ method: 7 }, 'method'],
    [{ method: 'ngram', num_speculative_token: 5 }, 'did you mean num_speculative_tokens?'],
    [{ method: 'ngram', num_speculative_tokens: 0 }, 'expected a whole number from 1 to 32, got 0'],
    [{ method: 'ngram', num_speculative_tokens: 'many' }, 'expected a whole number from 1 to 32, got "many"'],
    [{ method: 'ngram', prompt_lookup_max: 2, prompt_lookup_min: 3 }, '3 is more than prompt_lookup_max 2'],
  ])('refuses %j', (json, message) => {
    expect(() => parseSpeculativeConfig(json)).toThrow(message);
    expect(() => parseSpeculativeConfig(json)).toThrow('--speculative-config: ');
  });

  it.each([
    { method: 'eagle', num_speculative_tokens: 2 },
    { method: 'ngram', disable_by_batch_size: 4 },
  ])('says of %j that it is not there yet', (json) => {
    expect(() => parseSpeculativeConfig(json)).toThrow(NotAvailableError);
  });

  it('is an option of new LLM, too', () => {
    const { speculative } = toEngineConfig({ speculativeConfig: { method: 'ngram' } }, {});
    expect(speculative).toMatchObject({ method: 'ngram', numSpeculativeTokens: 5 });
  });
});
