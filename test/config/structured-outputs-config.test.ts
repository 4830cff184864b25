import { describe, expect, it } from 'vitest';
import { parseStructuredOutputsConfig } from '../../src/config/structured-outputs-config.ts';
import { ConfigError, NotAvailableError } from '../../src/errors.ts';

const NOTHING = { disableAnyWhitespace: false, disableAdditionalProperties: false };

describe('--structured-outputs-config', () => {
  it.each([
    null,
    {},
    { backend: 'xgrammar', disable_fallback: true },
    { reasoning_parser: '', enable_in_reasoning: false, backend: null },
  ])('asks for nothing by %j', (json) => {
    expect(parseStructuredOutputsConfig(json)).toEqual(NOTHING);
  });

  it('says how the JSON of all requests is written', () => {
    const json = { disable_any_whitespace: true, disable_additional_properties: true };
    expect(parseStructuredOutputsConfig(json)).toEqual({
      disableAnyWhitespace: true,
      disableAdditionalProperties: true,
    });
  });

  it.each([
    [{ backend: 'other' }, /backend.*expected one of auto, xgrammar/],
    [{ disable_any_whitespace: 'maybe' }, /disable_any_whitespace.*expected true or false/],
    [{ disable_any_whitspace: true }, /unknown field.*disable_any_whitespace/],
  ])('names the field that is wrong: %j', (json, message) => {
    expect(() => parseStructuredOutputsConfig(json)).toThrow(ConfigError);
    expect(() => parseStructuredOutputsConfig(json)).toThrow(message);
  });

  it.each([
    [{ reasoning_parser: 'qwen3' }, 'use --reasoning-parser'],
    [{ enable_in_reasoning: true }, 'leave it out'],
  ])('says what to do in place of what is not there: %j', (json, message) => {
    expect(() => parseStructuredOutputsConfig(json)).toThrow(NotAvailableError);
    expect(() => parseStructuredOutputsConfig(json)).toThrow(message);
  });
});
