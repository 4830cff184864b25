import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import type { ModelConfig } from '../../src/models/model-config.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

const BASE = {
  architectures: ['LlamaForCausalLM'],
  vocab_size: 100,
  hidden_size: 64,
  intermediate_size: 128,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  max_position_embeddings: 1000,
};

function folderWith(config: unknown): FolderFiles {
  const folder = newFolder();
  mkdirSync(folder);
  writeFileSync(join(folder, 'config.json'), typeof config === 'string' ? config : JSON.stringify(config));
  return new FolderFiles(folder);
}

const read = (fields: object): ModelConfig => readModelConfig(folderWith({ ...BASE, ...fields }));

describe('readModelConfig', () => {
  it('fills in what a config may leave out', () => {
    expect(read({})).toMatchObject({
      architecture: 'LlamaForCausalLM',
      numKvHeads: 4,
      headDim: 16,
      normEps: 1e-6,
      activation: 'silu',
      layerRopes: Array(4).fill({ kind: 'default', theta: 10000 }),
      attentionScales: [0.25, 0.25, 0.25, 0.25],
      tieWordEmbeddings: false,
      qkvBias: false,
      attentionOutputBias: false,
      mlpBias: false,
      hasHeadNorms: false,
      eosTokenIds: [],
      checkpointDType: null,
      slidingWindow: null,
      layerWindows: [null, null, null, null],
      maxPositionEmbeddings: 1000,
    });
  });

  it('takes head_dim where it is not hidden_size / heads, and null as absent', () => {
    expect(read({ head_dim: 24 }).headDim).toBe(24);
    expect(read({ head_dim: null }).headDim).toBe(16);
    expect(read({ architectures: ['Qwen3ForCausalLM'] }).headDim).toBe(128);
  });

  it.each([
    [2, [2]],
    [
      [2, 7],
      [2, 7],
    ],
    [null, []],
  ])('reads eos_token_id %j as %j', (eos_token_id, expected) => {
    expect(read({ eos_token_id }).eosTokenIds).toEqual(expected);
  });

  it.each([
    [{ torch_dtype: 'bfloat16' }, 'bf16'],
    [{ dtype: 'float16' }, 'f16'],
    [{ dtype: 'torch.float32' }, 'f32'],
  ] as const)('reads %j as %s', (fields, expected) => {
    expect(read(fields).checkpointDType).toBe(expected);
  });

  it('reads the rope from rope_parameters before the older fields', () => {
    const rope_parameters = { rope_type: 'linear', factor: 2, rope_theta: 500 };
    expect(read({ rope_parameters, rope_theta: 7 }).layerRopes[0]).toEqual({
      kind: 'linear',
      theta: 500,
      factor: 2,
    });
    expect(read({ rope_scaling: { type: 'linear', factor: 3 }, rope_theta: 7 }).layerRopes[0]).toEqual({
      kind: 'linear',
      theta: 7,
      factor: 3,
    });
  });

  it('takes the longest context for the original one of llama3 where config.json is silent', () => {
    const rope_scaling = { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4 };
    expect(read({ rope_scaling }).layerRopes[0]).toMatchObject({ kind: 'llama3', original: 1000 });
  });

  it.each([
    ['dynamic', { rope_type: 'dynamic', factor: 2.5 }, 1000],
    ['yarn', { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 500 }, 2000],
    ['linear', { rope_type: 'linear', factor: 4 }, 1000],
  ])('knows the longest context of %s positions', (_, rope_scaling, expected) => {
    expect(read({ rope_scaling }).maxPositionEmbeddings).toBe(expected);
  });

  it('lets dynamic positions be stretched where that is asked for', () => {
    const rope_scaling = { rope_type: 'dynamic', factor: 2.5, original_max_position_embeddings: 400 };
    const { longestContext, layerRopes } = read({ rope_scaling });
    expect([longestContext, layerRopes[0]]).toMatchObject([2500, { original: 1000 }]);
    expect(read({}).longestContext).toBe(1000);
  });

  it('gives Mistral one window for all layers, 4096 where it is silent and none where it says null', () => {
    const architectures = ['MistralForCausalLM'];
    expect(read({ architectures, sliding_window: 8 }).layerWindows).toEqual([8, 8, 8, 8]);
    expect(read({ architectures }).slidingWindow).toBe(4096);
    expect(read({ architectures, sliding_window: null }).slidingWindow).toBe(null);
    expect(() => read({ architectures, sliding_window: 2 ** 40 })).toThrow(/sliding_window must be at most/);
  });

  it('gives Qwen a window only where it is used, from max_window_layers on', () => {
    const qwen = { architectures: ['Qwen2ForCausalLM'], sliding_window: 8, max_window_layers: 3 };
    expect(read({ ...qwen, use_sliding_window: true }).layerWindows).toEqual([null, null, null, 8]);
    expect(read({ ...qwen, use_sliding_window: false }).slidingWindow).toBe(null);
  });

  it('follows layer_types where they are named', () => {
    const layer_types = ['sliding_attention', 'full_attention', 'full_attention', 'sliding_attention'];
    const config = read({ architectures: ['MistralForCausalLM'], sliding_window: 8, layer_types });
    expect(config.layerWindows).toEqual([8, null, null, 8]);
  });

  it.each([
    ['at the top', { partial_rotary_factor: 0.5 }],
    ['among the parameters', { rope_parameters: { partial_rotary_factor: 0.5 } }],
    ['in the old place', { rope_scaling: { rope_type: 'default', partial_rotary_factor: 0.5 } }],
  ])('lets positions rotate the part of a head that is named %s', (_, fields) => {
    expect(read({}).rotaryDim).toBe(read({}).headDim);
    expect(read(fields).rotaryDim).toBe(read({}).headDim / 2);
  });

  it.each([
    [
      'a missing field',
      { hidden_size: undefined },
      /config\.json: hidden_size is missing: it must be a number$/,
    ],
    ['a field of another type', { vocab_size: '100' }, /vocab_size must be a number, got "100"/],
    [
      'a size that is no whole number',
      { num_hidden_layers: 1.5 },
      /num_hidden_layers must be an integer, got 1.5/,
    ],
    [
      'an unknown activation',
      { hidden_act: 'relu6' },
      /hidden_act must be one of silu.*relu, relu2, got "relu6"/,
    ],
    [
      'quantised weights',
      { quantization_config: { quant_method: 'bitsandbytes' } },
      /bitsandbytes is not served; compressed-tensors, gptq, awq, fp8, modelopt, mxfp4 and bitnet are; use a float32/,
    ],
    [
      'a head that cannot be halved',
      { head_dim: 7 },
      /head_dim must be an even number of at most 8192, got 7/,
    ],
    [
      'a head that no model has',
      { head_dim: 2 ** 40 },
      /config\.json: head_dim must be .*, got 1099511627776/,
    ],
    [
      'a width that makes such heads',
      { head_dim: null, hidden_size: 2 ** 40 },
      /config\.json: head_dim must be .* \(hidden_size 1099511627776, num_attention_heads \d+\)/,
    ],
    [
      'heads that no group divides',
      { num_key_value_heads: 3 },
      /multiple of num_key_value_heads, got 4 and 3/,
    ],
    [
      'an unknown dtype',
      { torch_dtype: 'float8' },
      /dtype must be float32, float16 or bfloat16, got "float8"/,
    ],
    ['an unknown rope', { rope_scaling: { rope_type: 'mrope' } }, /"mrope" is not supported.*yarn/],
    ['a rope without its factor', { rope_scaling: { type: 'linear' } }, /linear needs the field factor/],
    ['a rotation of an odd part of the head', { partial_rotary_factor: 0.2 }, /0\.2 leaves 3$/],
    [
      'a rotation of more than the head',
      { partial_rotary_factor: 1.5 },
      /partial_rotary_factor must be at most 1, got 1.5/,
    ],
    [
      'factors of another length',
      { rope_scaling: { type: 'su', short_factor: [1], long_factor: [1] } },
      /short_factor must hold 8 numbers, got 1/,
    ],
    [
      'layer_types of another length',
      { layer_types: ['full_attention'] },
      /layer_types must name 4 layers, got 1/,
    ],
    [
      'an unknown kind of layer',
      { layer_types: Array(4).fill('linear_attention') },
      /layer_types must be full_attention or sliding_attention, got "linear_attention"/,
    ],
    [
      'an unknown architecture',
      { architectures: ['UnknownForCausalLM'] },
      /UnknownForCausalLM is not supported; supported are those of Llama, Llama4, Mistral, .*, GPT2, .*, ModernBert, NomicBert, New, Gte$/,
    ],
    ['no architecture', { architectures: null }, /architecture none is not supported/],
  ])('refuses %s', (_, fields, message) => {
    const call = () => read(fields);
    expect(call).toThrow(ModelLoadError);
    expect(call).toThrow(message);
  });

  it('may have numbers that only Python writes', () => {
    const text = JSON.stringify({ ...BASE, time_step_limit: [0, 1.5] }).replace('1.5', 'Infinity');
    expect(readModelConfig(folderWith(text)).architecture).toBe('LlamaForCausalLM');
  });

  it('names the file when it is missing, no JSON or no object', () => {
    expect(() => readModelConfig(new FolderFiles(newFolder()))).toThrow(/config\.json is missing/);
    expect(() => readModelConfig(folderWith('{"a": 1,}'))).toThrow(/config\.json is not valid JSON/);
    expect(() => readModelConfig(folderWith([1]))).toThrow(
      /config\.json: the file must be an object, got an array of 1/,
    );
  });

  const published = sharedFixture('configs');
  it('reads real configs, or says why not', needsShared(published), () => {
    const refused = (name: string) => () => readModelConfig(new FolderFiles(join(published!, name)));
    expect(refused('Llama-3.1-8B-Instruct')).toThrow(/bitsandbytes/);
    expect(readModelConfig(new FolderFiles(join(published!, 'Phi-3-mini-merge')))).toMatchObject({
      headDim: 96,
      slidingWindow: 2047,
    });
    expect(refused('MiniMind2')).toThrow(/MiniMindLM is not supported/);
    const text = readFileSync(join(published!, 'Llama-3.1-8B-Instruct/config.json'), 'utf8');
    const { quantization_config: _, ...llama } = JSON.parse(text);
    expect(readModelConfig(folderWith(llama))).toMatchObject({
      headDim: 128,
      numKvHeads: 8,
      maxPositionEmbeddings: 131072,
      eosTokenIds: [128001, 128008, 128009],
      checkpointDType: 'f16',
    });
    expect(readModelConfig(folderWith(llama)).layerRopes[0]).toEqual({
      kind: 'llama3',
      theta: 500000,
      factor: 8,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      original: 8192,
    });
  });
});
