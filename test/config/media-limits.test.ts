import { describe, expect, it } from 'vitest';
import { engineConfig, type GivenOption, mergeOptions } from '../../src/config/merge.ts';
import type { OptionKey } from '../../src/config/options.ts';
import { ConfigError } from '../../src/errors.ts';

function configWith(key: OptionKey, value: unknown) {
  return engineConfig('', mergeOptions(new Map<OptionKey, GivenOption>([[key, { value, origin: 'here' }]])));
}

describe('--limit-mm-per-prompt', () => {
  it.each<[unknown, number]>([
    [undefined, 16],
    ['{"image": 4}', 4],
    [{ image: 0, video: 2, audio: 'any' }, 0],
    [{ image: { count: 2, width: 512, height: 512 } }, 2],
    [{ video: 1 }, 16],
  ])('bounds the images of a prompt: %j', (value, maxImages) => {
    expect(configWith('limitMmPerPrompt', value).maxImages).toBe(maxImages);
  });

  it.each([
    [{ image: -1 }, /image: expected a whole number from 0 to 1024, got -1/],
    [{ image: 'many' }, /image: expected .*, got "many"/],
    [{ image: { count: 1.5 } }, /image: expected .*, got \{"count":1\.5\}/],
    [{ images: 4 }, /images: unknown kind.*image/],
  ])('is refused: %j', (value, message) => {
    expect(() => configWith('limitMmPerPrompt', value)).toThrow(ConfigError);
    expect(() => configWith('limitMmPerPrompt', value)).toThrow(message);
  });
});

describe('--mm-processor-kwargs', () => {
  it.each<[unknown, object | null]>([
    [undefined, null],
    ['{"max_pixels": 1000}', { max_pixels: 1000 }],
    [{ size: { longest_edge: 512 } }, { size: { longest_edge: 512 } }],
  ])('is for the model to judge: %j', (value, fields) => {
    expect(configWith('mmProcessorKwargs', value).mmProcessorKwargs).toEqual(fields);
  });

  it('is refused where it is no JSON object', () => {
    expect(() => configWith('mmProcessorKwargs', '[1]')).toThrow(/expected a JSON object/);
  });
});

describe('--allowed-media-domains', () => {
  it.each<[unknown, string[]]>([
    [undefined, []],
    ['Images.Example.com', ['images.example.com']],
    [
      ['10.0.0.7', '::1', '[FD00::1]', 'localhost'],
      ['10.0.0.7', '[::1]', '[fd00::1]', 'localhost'],
    ],
    ['["a.example", "b.example"]', ['a.example', 'b.example']],
  ])('names hosts: %j', (value, domains) => {
    expect(configWith('allowedMediaDomains', value).allowedMediaDomains).toEqual(domains);
  });

  it.each(['https://example.com', 'example.com:8080', 'example.com/images', '', [[]]])(
    'is refused: %j',
    (value) => {
      expect(() => configWith('allowedMediaDomains', value)).toThrow(/hosts such as images\.example\.com/);
    },
  );
});
