import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { parseModelName } from '../../src/hub/model-name.ts';
import { type ModelPart, neededFiles } from '../../src/hub/needed-files.ts';

const needed = (paths: readonly string[], name = 'org/m', part: ModelPart = 'model') => {
  const { repository, gguf } = parseModelName(name)!;
  return neededFiles(paths, { repository, gguf, part });
};

const CONFIG = ['config.json', 'generation_config.json'];
const INDEX = 'model.safetensors.index.json';

describe('the files that are needed of a page', () => {
  it('are the shards of an index, not weights in other formats, of other programs or beside them', () => {
    const shards = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
    const others = [
      'consolidated-00001-of-00001.safetensors',
      'adapter_model.safetensors',
      'pytorch_model-00001-of-00002.bin',
      'original/model-00001-of-00002.safetensors',
      'README.md',
      'model-Q4_K_M.gguf',
    ];
    expect(needed([...CONFIG, INDEX, ...shards, ...others])).toEqual([...CONFIG, INDEX, ...shards]);
  });

  it('are model.safetensors alone where there is no index', () => {
    const paths = [...CONFIG, 'model.safetensors', 'model.fp16.safetensors'];
    expect(needed(paths)).toEqual([...CONFIG, 'model.safetensors']);
  });

  it('are the older forms of a tokenizer only where there is no tokenizer.json', () => {
    const older = ['tokenizer.model', 'vocab.json', 'merges.txt', 'added_tokens.json'];
    expect(needed(['tokenizer.json', ...older], 'org/m', 'tokenizer')).toEqual(['tokenizer.json']);
    expect(needed(older, 'org/m', 'tokenizer')).toEqual(older);
    expect(() => needed(['vocab.json'], 'org/m', 'tokenizer')).toThrow(/org\/m has no tokenizer: expected/);
  });

  it('are those that say what becomes of images, where the whole model or its texts are wanted', () => {
    const images = ['preprocessor_config.json', 'processor_config.json'];
    const paths = [...CONFIG, ...images, 'model.safetensors'];
    expect(needed(paths)).toEqual(paths);
    expect(needed(paths, 'org/m', 'texts')).toEqual([...CONFIG, ...images]);
    expect(needed(paths, 'org/m', 'config')).toEqual(CONFIG);
  });

  it('are config.json and what belongs to it where only the shape is wanted', () => {
    expect(needed([...CONFIG, 'tokenizer.json', 'model.safetensors'], 'org/m', 'config')).toEqual(CONFIG);
  });
});

describe('a GGUF model on a page', () => {
  const files = ['m-Q4_K_M.gguf', 'm-Q8_0.gguf', 'README.md'];
  const split = ['Q2_K/m-Q2_K-00001-of-00002.gguf', 'Q2_K/m-Q2_K-00002-of-00002.gguf'];

  it.each(['org/m:Q4_K_M', 'org/m:q4_k_m', 'org/m/m-Q4_K_M.gguf', 'org/m:Q4_K_M@main'])(
    'is named %s',
    (name) => {
      expect(needed(files, name)).toEqual(['m-Q4_K_M.gguf']);
    },
  );

  it('may be of a quantisation with a hyphen in its name', () => {
    const dynamic = 'm-UD-Q4_K_XL.gguf';
    expect(needed([...files, dynamic], 'org/m:UD-Q4_K_XL')).toEqual([dynamic]);
  });

  it.each(['org/m:Q2_K', `org/m/${split[0]}`, `org/m/${split[1]}`])('has all its parts: %s', (name) => {
    expect(needed([...files, ...split], name)).toEqual(split);
  });

  it('needs no name where it is the only one', () => {
    expect(needed(['m.gguf', 'README.md'])).toEqual(['m.gguf']);
  });

  it.each([
    ['mmproj-BF16.gguf', ['mmproj-F16.gguf', 'mmproj-F32.gguf']],
    ['m-mmproj-f16.gguf', ['m-mmproj-Q8_0.gguf', 'm-mmproj-f32.gguf']],
    ['m.mmproj-f32.gguf', ['m.mmproj-Q8_0.gguf']],
    ['mmproj-m-Q8_0.gguf', []],
  ])('comes with what it sees images with: %s', (best, others) => {
    expect(needed(['m.gguf', ...others, best])).toEqual(['m.gguf', best]);
    expect(needed([...files, ...others, best], 'org/m:Q8_0')).toEqual(['m-Q8_0.gguf', best]);
    expect(needed([...split, ...others, best], 'org/m:Q2_K')).toEqual([...split, best]);
  });

  it('sees images with what is in its folder rather than with what is above', () => {
    const [own, above] = ['Q2_K/mmproj-F16.gguf', 'mmproj-BF16.gguf'];
    expect(needed([...split, above, own], 'org/m:Q2_K')).toEqual([...split, own]);
    expect(needed(['m.gguf', own])).toEqual(['m.gguf']);
  });

  it('is asked for where there are several, or none of that kind', () => {
    expect(() => needed(files)).toThrow(ModelLoadError);
    expect(() => needed(files)).toThrow(
      /more than one GGUF model: give one of org\/m\/m-Q4_K_M\.gguf, org\/m\/m-Q8_0/,
    );
    expect(() => needed(files, 'org/m:Q5_0')).toThrow(
      /no GGUF model of Q5_0: give one of org\/m\/m-Q4_K_M\.gguf/,
    );
    expect(() => needed(['a.txt'], 'org/m:Q5_0')).toThrow(/org\/m holds no \*\.gguf file: name a model/);
  });

  it('comes before weights in safetensors where GGUF is asked for', () => {
    const paths = [...CONFIG, 'model.safetensors', 'm-Q8_0.gguf'];
    expect(needed(paths, 'org/m', 'gguf')).toEqual(['m-Q8_0.gguf']);
    expect(needed(paths, 'org/m')).toEqual([...CONFIG, 'model.safetensors']);
  });

  it('is refused before anything is downloaded where safetensors are asked for', () => {
    const files = [...CONFIG, 'm-Q8_0.gguf'];
    expect(() => needed(files, 'org/m', 'safetensors')).toThrow(
      '--load-format safetensors: org/m holds GGUF files only: leave the option out',
    );
    const both = [...files, 'model.safetensors'];
    expect(() => needed(both, 'org/m:Q8_0', 'safetensors')).toThrow('org/m is named with a GGUF file');
    expect(needed(both, 'org/m', 'safetensors')).toEqual([...CONFIG, 'model.safetensors']);
  });

  it('is refused where a part is missing', () => {
    expect(() => needed(split.slice(0, 1), 'org/m:Q2_K')).toThrow(/holds 1 of the 2 parts/);
  });
});

describe('a name on a hub', () => {
  it.each([
    'org/../m',
    '../m',
    'a/b/c',
    'org/m@../x',
    'org/m@',
    'org/m:',
    'org/m:a:b',
    '/m',
    'org/m/../x.gguf',
  ])('is not %s', (name) => expect(parseModelName(name)).toBeNull());

  it('may be one without an organisation', () => {
    expect(parseModelName('gpt2@main')).toEqual({ repository: 'gpt2', revision: 'main', gguf: null });
  });
});
