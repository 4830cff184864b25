// What is made of the metadata of an encoder of images in GGUF, and of the model beside it: config.json and preprocessor_config.json.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { GgufSource } from '../../src/models/source/gguf/gguf-source.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { OverriddenSource } from '../../src/models/source/overridden-source.ts';
import { type GgmlType, type GgufValue, tensorBytes, writeGguf } from '../fixtures/gguf-writer.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

type Metadata = Readonly<Record<string, GgufValue>>;
type Shapes = Readonly<Record<string, readonly number[]>>;

const nameFolder = temporaryFolders();

function write(path: string, metadata: Metadata, shapes: Shapes, type: GgmlType = 'F16'): void {
  const tensors = Object.entries(shapes).map(([name, shape]) => ({ name, shape, type }));
  writeGguf(path, metadata, tensors, (tensor) => [new Uint8Array(tensorBytes(tensor))]);
}

function writeText(
  folder: string,
  architecture: string,
  more: Metadata = {},
  type: GgmlType = 'F16',
): string {
  const path = join(folder, 'model.gguf');
  const keys: Metadata = {
    'general.architecture': { string: architecture },
    [`${architecture}.block_count`]: { u32: 1 },
    [`${architecture}.context_length`]: { u32: 128 },
    [`${architecture}.embedding_length`]: { u32: 32 },
    [`${architecture}.feed_forward_length`]: { u32: 64 },
    [`${architecture}.attention.head_count`]: { u32: 2 },
    [`${architecture}.attention.head_count_kv`]: { u32: 2 },
    ...more,
  };
  write(path, keys, { 'token_embd.weight': [32, 32] }, type);
  return path;
}

const LAYER: Shapes = { 'v.blk.0.ffn_up.weight': [96, 64], 'v.blk.0.ffn_down.weight': [64, 96] };

function encoderKeys(type: string, more: Metadata = {}): Metadata {
  return {
    'general.architecture': { string: 'clip' },
    'clip.projector_type': { string: type },
    'clip.vision.projection_dim': { u32: 32 },
    'clip.vision.image_size': { u32: 64 },
    'clip.vision.patch_size': { u32: 8 },
    'clip.vision.embedding_length': { u32: 64 },
    'clip.vision.feed_forward_length': { u32: 96 },
    'clip.vision.block_count': { u32: 1 },
    'clip.vision.attention.head_count': { u32: 4 },
    'clip.vision.projector.scale_factor': { u32: 2 },
    'clip.vision.spatial_merge_size': { u32: 2 },
    'clip.vision.n_wa_pattern': { u32: 1 },
    'clip.vision.image_mean': { f32s: [0.5, 0.5, 0.5] },
    'clip.vision.image_std': { f32s: [0.25, 0.25, 0.25] },
    ...more,
  };
}

function pair(text: string, type: string, more: Metadata = {}, shapes: Shapes = {}): string {
  const folder = nameFolder();
  mkdirSync(folder);
  write(join(folder, 'mmproj.gguf'), encoderKeys(type, more), { ...LAYER, ...shapes });
  return writeText(folder, text);
}

function textsOf(path: string) {
  const source = openModelSource(path);
  const read = (name: 'config.json' | 'preprocessor_config.json'): unknown =>
    JSON.parse(source.read(name)?.text ?? 'null');
  return { config: read('config.json'), images: read('preprocessor_config.json') };
}

const LFM2: Metadata = {
  'lfm2moe.attention.head_count_kv': { i32s: [2] },
  'lfm2moe.shortconv.l_cache': { u32: 3 },
};
const SECTIONS: Metadata = { 'qwen2vl.rope.dimension_sections': { i32s: [2, 3, 3, 0] } };
const MERGER: Shapes = { 'mm.patch_merger.weight': [64, 256] };

describe('the files that a model in GGUF would have with its encoder', () => {
  it.each<[string, string, Metadata, Shapes, object, object]>([
    ['llama', 'idefics3', {}, {}, { scale_factor: 2 }, { size: { longest_edge: 256 } }],
    [
      'llama',
      'idefics3',
      { 'clip.vision.preproc_image_size': { u32: 192 } },
      {},
      { vision_config: { image_size: 64, intermediate_size: 96 } },
      { size: { longest_edge: 192 }, max_image_size: { longest_edge: 64 } },
    ],
    [
      'lfm2',
      'lfm2',
      {},
      { 'mm.1.weight': [48, 256] },
      {
        downsample_factor: 2,
        projector_hidden_size: 48,
        projector_bias: false,
        projector_use_layernorm: false,
      },
      {},
    ],
    [
      'lfm2',
      'lfm2',
      {},
      { 'mm.1.weight': [48, 256], 'mm.1.bias': [48], 'mm.input_norm.weight': [256] },
      { projector_bias: true, projector_use_layernorm: true },
      {},
    ],
    ['llama', 'pixtral', {}, MERGER, { vision_config: { hidden_act: 'gelu', rope_theta: 10_000 } }, {}],
    [
      'mistral3',
      'pixtral',
      { 'clip.use_silu': { bool: true }, 'clip.rope.freq_base': { f32: 500 } },
      MERGER,
      { vision_config: { hidden_act: 'silu', rope_theta: 500 }, text_config: { model_type: 'ministral3' } },
      { size: { longest_edge: 64 } },
    ],
    [
      'internlm2',
      'internvl',
      {
        'clip.vision.attention.layer_norm_epsilon': { f32: 0.5 },
        'clip.vision.projector.scale_factor': { u32: 4 },
      },
      { 'v.blk.0.attn_q.bias': [64], 'v.blk.0.attn_q_norm.weight': [64] },
      {
        architectures: ['InternVLForConditionalGeneration'],
        downsample_ratio: 0.25,
        text_config: { model_type: 'llama' },
        vision_config: { image_size: 64, layer_norm_eps: 0.5, attention_bias: true, use_qk_norm: true },
      },
      { size: { height: 64, width: 64 } },
    ],
    [
      'qwen3moe',
      'internvl',
      {},
      {},
      {
        downsample_ratio: 0.5,
        text_config: { model_type: 'qwen3_moe' },
        vision_config: { attention_bias: false, use_qk_norm: false },
      },
      {},
    ],
    [
      'qwen3vl',
      'qwen3vl_merger',
      {
        'clip.vision.spatial_merge_size': { u32: 4 },
        'clip.vision.image_min_pixels': { u32: 256 },
        'clip.vision.image_max_pixels': { u32: 4096 },
      },
      {},
      { vision_config: { spatial_merge_size: 4, depth: 1, num_heads: 4, deepstack_visual_indexes: [] } },
      { min_pixels: 256, max_pixels: 4096 },
    ],
    [
      'qwen2vl',
      'qwen2vl_merger',
      {},
      {},
      { vision_config: { spatial_merge_size: 2, embed_dim: 64, mlp_ratio: 1.5 } },
      { min_pixels: 3136, max_pixels: 12_845_056, image_std: [0.25, 0.25, 0.25] },
    ],
  ])('beside %s is %s', (text, type, more, shapes, config, images) => {
    const path = pair(text, type, more, shapes);
    if (text.startsWith('lfm2')) writeText(join(path, '..'), text, rename(LFM2, text));
    expect(textsOf(path)).toMatchObject({ config, images });
  });

  it('tell of experts beside LFM2', () => {
    const path = pair('lfm2moe', 'lfm2', {}, { 'mm.1.weight': [48, 256] });
    writeText(join(path, '..'), 'lfm2moe', { ...LFM2, 'lfm2moe.expert_feed_forward_length': { u32: 16 } });
    expect(textsOf(path).config).toMatchObject({
      architectures: ['Lfm2VlForConditionalGeneration'],
      text_config: { model_type: 'lfm2_moe' },
    });
  });

  it('say of the whole what the file of the text does', () => {
    const path = pair('qwen3vl', 'qwen3vl_merger');
    const whole = { tie_word_embeddings: true, torch_dtype: 'float16', quantization_config: null };
    expect(textsOf(path).config).toMatchObject({ ...whole, text_config: whole });
    writeText(join(path, '..'), 'qwen3vl', {}, 'Q8_0');
    expect(textsOf(path).config).toMatchObject({ quantization_config: { quant_method: 'gguf' } });
  });
});

/** Keys of an architecture as those of another one. */
function rename(keys: Metadata, architecture: string): Metadata {
  return Object.fromEntries(
    Object.entries(keys).map(([key, value]) => [key.replace(/^[^.]+/, architecture), value]),
  );
}

describe('an encoder beside a model in GGUF', () => {
  it('of Pixtral 12B, which has no merger, is another one', () => {
    const source = openModelSource(pair('llama', 'pixtral'));
    expect(source.read('preprocessor_config.json')).toBeNull();
    const note = expect.stringContaining('svc does not know (clip.projector_type pixtral)');
    expect(source.note).toEqual(note);
    expect(new OverriddenSource(source, {}).note).toEqual(note);
  });

  it.each([
    ['two generations of one name', 'qwen2.5vl_merger', 'Tiny'],
    ['one that has no name and one that has', 'qwen2vl_merger', null],
  ])('is not chosen between %s', (_, type, name) => {
    const path = pair('qwen2vl', 'qwen2vl_merger', { 'general.name': { string: 'Tiny' } });
    const more: Metadata = name === null ? {} : { 'general.name': { string: name } };
    write(join(path, '..', 'other-mmproj.gguf'), encoderKeys(type, more), LAYER);
    expect(() => openModelSource(path).read('config.json')).toThrow(
      'mmproj.gguf and other-mmproj.gguf beside it would both make it see images',
    );
  });

  it('takes two bytes a number in memory, of which blocks have less', () => {
    const path = pair('qwen3vl', 'qwen3vl_merger');
    const halves = new GgufSource(path).loadedBytes(true);
    write(join(path, '..', 'mmproj.gguf'), encoderKeys('qwen3vl_merger'), LAYER, 'Q8_0');
    expect(new GgufSource(path).loadedBytes(true)).toBe(halves);
  });

  it.each<[string, string, string, Metadata, Shapes, RegExp]>([
    [
      'qwen2vl',
      'qwen2.5vl_merger',
      'no layer',
      { 'clip.vision.n_wa_pattern': { u32: 0 } },
      {},
      /n_wa_pattern must be/,
    ],
    [
      'qwen2vl',
      'qwen2.5vl_merger',
      'too many layers',
      { 'clip.vision.block_count': { u32: 2 ** 31 } },
      {},
      /must be/,
    ],
    [
      'qwen2vl',
      'qwen2vl_merger',
      'patches of nothing',
      { 'clip.vision.patch_size': { u32: 0 } },
      {},
      /patch_size/,
    ],
    [
      'gemma3',
      'gemma3',
      'no token',
      { 'clip.vision.projector.scale_factor': { u32: 0 } },
      {},
      /mm_tokens_per_image/,
    ],
    [
      'gemma3',
      'gemma3',
      'no heads',
      { 'clip.vision.attention.head_count': { u32: 0 } },
      {},
      /num_attention_heads/,
    ],
    [
      'qwen2vl',
      'qwen2vl_merger',
      'frames of two sizes',
      {},
      { 'v.patch_embd.weight': [64, 3, 8, 8], 'v.patch_embd.weight.1': [64, 3, 8, 4] },
      /v\.patch_embd\.weight\.1 .*\[64, 3, 8, 8\]/,
    ],
  ])('of %s, %s, is refused with %s', (text, type, _, more, shapes, why) => {
    const path = pair(text, type, more, shapes);
    if (text === 'qwen2vl') writeText(join(path, '..'), text, SECTIONS);
    const source = openModelSource(path);
    expect(() => {
      readModelConfig(source);
      source.openCheckpoint();
    }).toThrow(ModelLoadError);
    expect(() => {
      readModelConfig(source);
      source.openCheckpoint();
    }).toThrow(why);
  });
});
