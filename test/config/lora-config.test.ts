import { describe, expect, it } from 'vitest';
import { toEngineConfig } from '../../src/config/llm-options.ts';
import { type GivenOption, mergeOptions, serveConfig } from '../../src/config/merge.ts';
import type { OptionKey } from '../../src/config/options.ts';

function loraOf(given: Partial<Record<OptionKey, unknown>>) {
  const options = Object.entries(given).map(([key, value]): [OptionKey, GivenOption] => [
    key as OptionKey,
    { value, origin: `--${key}` },
  ]);
  return serveConfig(mergeOptions(new Map(options))).engine.lora;
}

describe('--lora-modules', () => {
  it('takes name=path, and the object of the reference as JSON', () => {
    const object = { name: 'b', path: '/b', base_model_name: 'org/base' };
    expect(loraOf({ loraModules: ['a=/x=y', JSON.stringify(object)] })).toEqual({
      modules: [
        { name: 'a', path: '/x=y', baseModelName: null },
        { name: 'b', path: '/b', baseModelName: 'org/base' },
      ],
      maxLoras: 16,
      maxLoraRank: 16,
    });
    expect(loraOf({ loraModules: 'a=b' })?.modules).toHaveLength(1);
    expect(toEngineConfig({ loraModules: [{ name: 'a', path: 'b' }], maxLoraRank: 64 }, {}).lora).toEqual({
      modules: [{ name: 'a', path: 'b', baseModelName: null }],
      maxLoras: 16,
      maxLoraRank: 64,
    });
  });

  it.each(['a', '=b', 'a=', '{"name": "a"}', '{"name": "a", "path": "b", "rank": 4}', '{'])(
    'refuses %s, saying what is expected',
    (written) => {
      expect(() => loraOf({ loraModules: [written] })).toThrow(
        /expected one or more adapters, each as name=path/,
      );
    },
  );

  it('refuses two adapters of one name, or with that of the model, and more than --max-loras', () => {
    expect(() => loraOf({ loraModules: ['a=b'], servedModelName: 'a' })).toThrow(
      /a is a name of the model itself/,
    );
    expect(() => loraOf({ loraModules: ['svc-chat=b'] })).toThrow(/svc-chat is a name of the model itself/);
    expect(() => loraOf({ loraModules: ['./m=b'], model: './m' })).toThrow(/m is a name of the model itself/);
    expect(loraOf({ loraModules: ['svc-chat=b'], model: './m' })?.modules).toHaveLength(1);
    expect(() => loraOf({ loraModules: ['a=b', 'a=c'] })).toThrow(/two adapters are called a/);
    expect(() => loraOf({ loraModules: ['a=b', 'c=d'], maxLoras: 1 })).toThrow(/raise it to 2/);
  });

  it('is not needed with --enable-lora; without both no adapter can be served', () => {
    expect(loraOf({ enableLora: true })?.modules).toEqual([]);
    expect(loraOf({})).toBeNull();
  });
});
