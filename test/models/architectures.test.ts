// What each architecture makes of a config.json, and the list of all.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Architecture } from '../../src/models/architecture.ts';
import { afmoe } from '../../src/models/architectures/afmoe.ts';
import { apertus } from '../../src/models/architectures/apertus.ts';
import { cohere, cohere2 } from '../../src/models/architectures/cohere.ts';
import { deepseekV2 } from '../../src/models/architectures/deepseek.ts';
import { dots1 } from '../../src/models/architectures/dots1.ts';
import { ernie45, ernie45Moe } from '../../src/models/architectures/ernie4-5.ts';
import { exaone4 } from '../../src/models/architectures/exaone4.ts';
import { falconH1 } from '../../src/models/architectures/falcon-h1.ts';
import { gemma } from '../../src/models/architectures/gemma.ts';
import { gemma2 } from '../../src/models/architectures/gemma2.ts';
import { gemma3 } from '../../src/models/architectures/gemma3.ts';
import { gemma4 } from '../../src/models/architectures/gemma4.ts';
import { solarOpen } from '../../src/models/architectures/glm4-moe.ts';
import { gptNeox } from '../../src/models/architectures/gpt-neox.ts';
import { gptOss } from '../../src/models/architectures/gpt-oss.ts';
import { gpt2 } from '../../src/models/architectures/gpt2.ts';
import { codeGen, gptJ } from '../../src/models/architectures/gptj.ts';
import { granite } from '../../src/models/architectures/granite.ts';
import { graniteMoe } from '../../src/models/architectures/granite-moe.ts';
import { graniteSwa } from '../../src/models/architectures/granite-swa.ts';
import { hunyuanDense, hunyuanMoe } from '../../src/models/architectures/hunyuan.ts';
import { internLm2, internLm3 } from '../../src/models/architectures/internlm.ts';
import { llama } from '../../src/models/architectures/llama.ts';
import { llama4, llama4Whole } from '../../src/models/architectures/llama4.ts';
import { minimaxM2 } from '../../src/models/architectures/minimax-m2.ts';
import { mistral } from '../../src/models/architectures/mistral.ts';
import { ministral3, mistral3 } from '../../src/models/architectures/mistral3.ts';
import { mixtral } from '../../src/models/architectures/mixtral.ts';
import { nemotronH } from '../../src/models/architectures/nemotron-h.ts';
import { olmo3, olmoe } from '../../src/models/architectures/olmo.ts';
import { olmo1 } from '../../src/models/architectures/olmo1.ts';
import { opt } from '../../src/models/architectures/opt.ts';
import { phi } from '../../src/models/architectures/phi.ts';
import { phiMoe } from '../../src/models/architectures/phimoe.ts';
import { qwen2Vl } from '../../src/models/architectures/qwen-vl.ts';
import { qwen2 } from '../../src/models/architectures/qwen2.ts';
import { qwen2Moe } from '../../src/models/architectures/qwen2-moe.ts';
import { qwen3 } from '../../src/models/architectures/qwen3.ts';
import { qwen3Moe } from '../../src/models/architectures/qwen3-moe.ts';
import { smollm3 } from '../../src/models/architectures/smollm3.ts';
import { stableLm } from '../../src/models/architectures/stablelm.ts';
import type { ModelConfig } from '../../src/models/model-config.ts';
import { cacheLayerOf, numKvLayers } from '../../src/models/recurrent-layers.ts';
import {
  ARCHITECTURE_NAMES,
  ARCHITECTURES,
  findArchitecture,
  readModelConfig,
} from '../../src/models/registry.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

const FIELDS = {
  vocab_size: 100,
  hidden_size: 64,
  intermediate_size: 128,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  max_position_embeddings: 1000,
};
/** Of architectures with experts or latent attention, too. */
const EXPERT_FIELDS = {
  ...FIELDS,
  num_local_experts: 4,
  num_experts: 4,
  moe_topk: 2,
  num_experts_per_tok: 2,
  moe_intermediate_size: 32,
  shared_expert_intermediate_size: 32,
  kv_lora_rank: 16,
  qk_nope_head_dim: 8,
  qk_rope_head_dim: 4,
  v_head_dim: 8,
  moe_num_experts: 4,
  moe_k: 2,
};
/** Of architectures that call their fields otherwise. */
const DISTILBERT_FIELDS = {
  vocab_size: 100,
  dim: 64,
  hidden_dim: 128,
  n_layers: 2,
  n_heads: 4,
  max_position_embeddings: 100,
};
const CHATGLM_FIELDS = {
  padded_vocab_size: 100,
  hidden_size: 64,
  ffn_hidden_size: 128,
  num_layers: 4,
  num_attention_heads: 4,
  seq_length: 1000,
};
const SEEING_FIELDS = { text_config: FIELDS, vision_config: { image_size: 364, patch_size: 14 } };
const GPTJ_FIELDS = { vocab_size: 100, n_embd: 64, n_layer: 4, n_head: 4, n_positions: 1000, rotary_dim: 8 };
const OWN_FIELDS: Readonly<Record<string, object>> = {
  DistilBertModel: DISTILBERT_FIELDS,
  DistilBertForMaskedLM: DISTILBERT_FIELDS,
  DistilBertForSequenceClassification: DISTILBERT_FIELDS,
  ChatGLMModel: CHATGLM_FIELDS,
  ChatGLMForConditionalGeneration: CHATGLM_FIELDS,
  OPTForCausalLM: { ...FIELDS, ffn_dim: 96 },
  AfmoeForCausalLM: { ...FIELDS, num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 8 },
  GPTJForCausalLM: GPTJ_FIELDS,
  CodeGenForCausalLM: GPTJ_FIELDS,
  GPT2LMHeadModel: { vocab_size: 100, n_embd: 64, n_layer: 4, n_head: 4, n_positions: 1000 },
  Gemma3ForConditionalGeneration: { text_config: FIELDS },
  Gemma3nForCausalLM: { ...FIELDS, num_kv_shared_layers: 0 },
  Gemma3nForConditionalGeneration: { text_config: { ...FIELDS, num_kv_shared_layers: 0 } },
  Gemma4ForConditionalGeneration: { text_config: FIELDS },
  Gemma4UnifiedForConditionalGeneration: { text_config: FIELDS },
  Idefics3ForConditionalGeneration: SEEING_FIELDS,
  SmolVLMForConditionalGeneration: SEEING_FIELDS,
  InternVLForConditionalGeneration: SEEING_FIELDS,
  InternVLChatModel: { llm_config: FIELDS, vision_config: SEEING_FIELDS.vision_config, ps_version: 'v2' },
  Lfm2VlForConditionalGeneration: SEEING_FIELDS,
  Llama4ForConditionalGeneration: { text_config: FIELDS },
  Mistral3ForConditionalGeneration: { text_config: FIELDS },
  NemotronHForCausalLM: { ...FIELDS, hybrid_override_pattern: 'M-*-' },
  Qwen3_5ForConditionalGeneration: { text_config: FIELDS },
  Qwen3_5MoeForConditionalGeneration: { text_config: EXPERT_FIELDS },
};
const ALL_BIASES = { attention_bias: true, mlp_bias: true };
const NO_TRAITS = {
  headDim: 16,
  qkvBias: false,
  attentionOutputBias: false,
  mlpBias: false,
  hasHeadNorms: false,
  layerWindows: [null, null, null, null],
};

describe('Qwen-VL', () => {
  const read = (architecture: string, json: object) =>
    findArchitecture(architecture).readConfig({ path: 'config.json', architecture, json });
  const rope_scaling = { type: 'mrope', mrope_section: [2, 3, 3] };

  it('sees by an encoder whose fields older files have beside those of the text part', () => {
    const vision_config = { depth: 2, embed_dim: 32, mlp_ratio: 3, num_heads: 2, hidden_size: 64 };
    const older = { ...FIELDS, rope_scaling, vision_config };
    const { vision, ropeSections, layerRopes } = read('Qwen2VLForConditionalGeneration', older);
    expect(ropeSections).toEqual({ lines: 3, columns: 3, alternate: false });
    expect(layerRopes[0]).toMatchObject({ kind: 'default' });
    expect(vision).toMatchObject({ patchSize: 14, mergeSize: 2, frames: 2, windows: null, deepLayers: [] });
    expect(vision!.layers).toMatchObject({ hiddenSize: 32, intermediateSize: 96, numLayers: 2, headDim: 16 });
  });

  it('has windows of whole tokens', () => {
    const vision_config = {
      window_size: 112,
      patch_size: 14,
      spatial_merge_size: 2,
      fullatt_block_indexes: [7],
    };
    const { vision } = read('Qwen2_5_VLForConditionalGeneration', { ...FIELDS, rope_scaling, vision_config });
    expect(vision!.windows).toEqual({ side: 8, wholeLayers: [7] });
  });

  it('reads only text where its file has no encoder', () => {
    const { vision, ropeSections } = read('Qwen3VLForConditionalGeneration', { text_config: FIELDS });
    expect([vision, ropeSections]).toEqual([null, null]);
  });

  it.each([
    [
      'too few pairs',
      { mrope_section: [2, 2, 2] },
      /mrope_section must be three numbers whose sum is 8, .* got 2, 2 and 2$/,
    ],
    ['two numbers', { mrope_section: [4, 4] }, /mrope_section/],
    ['none where the usual ones do not fit', {}, /whose sum is 8, .* got 24, 20 and 20$/],
  ])('is refused with %s', (_, rope, message) => {
    const text_config = { ...FIELDS, head_dim: 16, rope_scaling: { rope_type: 'default', ...rope } };
    const json = { text_config, vision_config: {} };
    expect(() => read('Qwen3VLForConditionalGeneration', json)).toThrow(message);
  });
});

describe('ChatGLM', () => {
  const read = (fields: object) => {
    const json = { ...CHATGLM_FIELDS, ...fields };
    return findArchitecture('ChatGLMModel').readConfig({
      path: 'config.json',
      architecture: 'ChatGLMModel',
      json,
    });
  };

  it('has heads of keys for all queries, or for groups of them, and a base of rotation in proportion', () => {
    expect(read({}).numKvHeads).toBe(4);
    expect(read({ multi_query_attention: true, multi_query_group_num: 2 }).numKvHeads).toBe(2);
    expect(read({ rope_ratio: 500 }).layerRopes[0]).toEqual({ kind: 'default', theta: 5_000_000 });
    expect(read({ add_qkv_bias: true })).toMatchObject({ qkvBias: true, attentionOutputBias: false });
    expect(read({ add_bias_linear: true })).toMatchObject({
      qkvBias: true,
      attentionOutputBias: true,
      mlpBias: true,
    });
  });

  it.each([
    { rmsnorm: false },
    { post_layer_norm: false },
    { apply_residual_connection_post_layernorm: true },
  ])('is refused in another form: %j', (fields) => {
    expect(() => read(fields)).toThrow(/other forms of ChatGLMModel are not supported/);
  });
});

describe('the list of architectures', () => {
  it('names each architecture once', () => {
    expect(new Set(ARCHITECTURE_NAMES).size).toBe(ARCHITECTURE_NAMES.length);
    expect(ARCHITECTURES.flatMap(({ architectures }) => architectures)).toEqual(ARCHITECTURE_NAMES);
  });

  it.each(ARCHITECTURE_NAMES)('lets %s read its own config.json', (name) => {
    const folder = newFolder();
    mkdirSync(folder);
    const json = { ...(OWN_FIELDS[name] ?? EXPERT_FIELDS), num_labels: 1 };
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...json, architectures: ['Unknown', name] }));
    const config = readModelConfig(new FolderFiles(folder));
    expect(config.architecture).toBe(name);
    const file = { path: 'config.json', architecture: name, json };
    const own = findArchitecture(name).readConfig(file);
    // What an encoder is for is said by other files, too.
    expect(config.pooling === null).toBe(config.encoder === null);
    expect({ ...config, pooling: null }).toEqual(own);
  });
});

describe('readConfig', () => {
  const reader =
    (architecture: Architecture) =>
    (fields: object): ModelConfig =>
      architecture.readConfig({ path: 'config.json', architecture: 'Any', json: { ...FIELDS, ...fields } });

  it('of Llama takes biases where the config asks for them, and never a window', () => {
    const read = reader(llama);
    expect(read({ sliding_window: 8 })).toMatchObject(NO_TRAITS);
    const biases = { qkvBias: true, attentionOutputBias: true, mlpBias: true };
    expect(read(ALL_BIASES)).toMatchObject({ ...NO_TRAITS, ...biases });
    expect(read({ mlp_bias: true })).toMatchObject({ ...NO_TRAITS, mlpBias: true });
  });

  it('of Mistral takes no biases, and one window for all layers', () => {
    const read = reader(mistral);
    expect(read({ ...ALL_BIASES, sliding_window: null })).toMatchObject(NO_TRAITS);
    expect(read({ sliding_window: 8 }).layerWindows).toEqual([8, 8, 8, 8]);
    expect(read({}).slidingWindow).toBe(4096);
  });

  it('of Qwen 2 has biases on queries, keys and values whatever the config says', () => {
    const read = reader(qwen2);
    expect(read(ALL_BIASES)).toMatchObject({ ...NO_TRAITS, qkvBias: true });
    expect(read({})).toMatchObject({ ...NO_TRAITS, qkvBias: true });
  });

  it('of Qwen 3 normalises heads of 128 numbers, with biases of attention where the config asks for them', () => {
    const read = reader(qwen3);
    expect(read({})).toMatchObject({ ...NO_TRAITS, headDim: 128, hasHeadNorms: true });
    expect(read({ head_dim: 32 }).headDim).toBe(32);
    const biases = { qkvBias: true, attentionOutputBias: true, mlpBias: false };
    expect(read(ALL_BIASES)).toMatchObject(biases);
  });

  it.each([qwen2, qwen3])(
    'of Qwen slides from layer max_window_layers on, only where it is told to',
    (qwen) => {
      const read = reader(qwen);
      const window = { sliding_window: 8, max_window_layers: 3 };
      expect(read(window).layerWindows).toEqual([null, null, null, null]);
      expect(read({ ...window, use_sliding_window: true }).layerWindows).toEqual([null, null, null, 8]);
    },
  );

  it('of Falcon 3 and Yi is that of Llama', () => {
    const read = reader(llama);
    expect(read({ head_dim: 256, rope_theta: 1000042 })).toMatchObject({
      headDim: 256,
      layerRopes: Array(4).fill({ kind: 'default', theta: 1000042 }),
    });
    const yi = { hidden_act: 'silu', num_key_value_heads: 2, pretraining_tp: 1, rope_theta: 5_000_000 };
    expect(read({ ...yi, rms_norm_eps: 1e-5 })).toMatchObject({ numKvHeads: 2, normEps: 1e-5 });
  });

  it('of Gemma takes the tanh GELU whatever hidden_act says, and ties its embeddings', () => {
    const read = reader(gemma);
    expect(read({ hidden_act: 'gelu' })).toMatchObject({
      activation: 'gelu_tanh',
      embeddingScale: 8,
      tieWordEmbeddings: true,
    });
    expect(read({ hidden_activation: 'gelu' }).activation).toBe('gelu');
    expect(read({ hidden_act: 'silu' }).activation).toBe('silu');
    expect(read({ attention_bias: true })).toMatchObject({ qkvBias: true, attentionOutputBias: true });
  });

  it('of Gemma 2 slides in every other layer, and bounds logits unless it is told not to', () => {
    const read = reader(gemma2);
    expect(read({ sliding_window: 8 })).toMatchObject({
      layerWindows: [8, null, 8, null],
      attentionScales: [1 / 16, 1 / 16, 1 / 16, 1 / 16],
      attentionSoftcap: 50,
      logitSoftcap: 30,
    });
    const unbounded = { attn_logit_softcapping: null, final_logit_softcapping: null };
    expect(read(unbounded)).toMatchObject({ attentionSoftcap: null, logitSoftcap: null });
  });

  it('of Gemma 3 slides in five layers of six, each kind with a rotation of its own, old names or new', () => {
    const read = reader(gemma3);
    const [near, far] = [
      { kind: 'default', theta: 10000 },
      { kind: 'linear', theta: 1_000_000, factor: 8 },
    ];
    const old = read({ num_hidden_layers: 7, rope_scaling: { rope_type: 'linear', factor: 8 } });
    expect(old.layerWindows).toEqual([4096, 4096, 4096, 4096, 4096, null, 4096]);
    expect(old.layerRopes).toEqual([near, near, near, near, near, far, near]);
    const rope_parameters = {
      full_attention: { rope_type: 'linear', factor: 8, rope_theta: 1_000_000 },
      sliding_attention: { rope_type: 'default', rope_theta: 10000 },
    };
    expect(read({ num_hidden_layers: 7, rope_parameters }).layerRopes).toEqual(old.layerRopes);
    const softcaps = { attn_logit_softcapping: 3, final_logit_softcapping: 2 };
    expect(read(softcaps)).toMatchObject({ attentionSoftcap: null, logitSoftcap: 2 });
  });

  it('of Gemma 3 that sees images fills in what its releases leave out', () => {
    const text_config = {
      hidden_size: 2560,
      intermediate_size: 10240,
      num_hidden_layers: 34,
      sliding_window: 1024,
    };
    const json = { text_config, eos_token_id: [1, 106], torch_dtype: 'bfloat16' };
    const file = { path: 'config.json', architecture: 'Gemma3ForConditionalGeneration', json };
    expect(gemma3.readConfig(file)).toMatchObject({
      vocabSize: 262208,
      numHeads: 8,
      numKvHeads: 4,
      headDim: 256,
      maxPositionEmbeddings: 131072,
      eosTokenIds: [1, 106],
      checkpointDType: 'bf16',
      tieWordEmbeddings: true,
    });
  });

  it('of Gemma 3 that sees images makes a token of a square of patches, and one step computes those of an image', () => {
    const vision_config = {
      hidden_size: 1152,
      image_size: 896,
      intermediate_size: 4304,
      num_attention_heads: 16,
      num_hidden_layers: 27,
      patch_size: 14,
      vision_use_head: false,
    };
    const read = (fields: object, sliding_window: number | null = 1024) => {
      const json = { text_config: { ...FIELDS, sliding_window }, vision_config, ...fields };
      return gemma3.readConfig({ path: 'config.json', architecture: 'Gemma3ForConditionalGeneration', json })
        .vision;
    };
    expect(read({})).toMatchObject({
      layers: { numLayers: 27, headDim: 72, normEps: 1e-6, activation: 'gelu_tanh' },
      patchesPerSide: 64,
      mergeSize: 4,
      wholeImageTokens: 256,
    });
    expect(read({ mm_tokens_per_image: 1024 }, null)).toMatchObject({ mergeSize: 2, wholeImageTokens: 1024 });
    expect(read({ vision_config: undefined })).toBeNull();
    const square =
      /mm_tokens_per_image must be the tokens of a square that divides the 64 patches .* got 250/;
    expect(() => read({ mm_tokens_per_image: 250 })).toThrow(square);
    const window = /config\.json: mm_tokens_per_image must be at most sliding_window, 200, got 256/;
    expect(() => read({}, 200)).toThrow(window);
  });

  it('of Gemma 3 that sees images ties its head as the whole model says', () => {
    const read = (outer: object, inner: object) => {
      const json = { text_config: { ...FIELDS, ...inner }, ...outer };
      return gemma3.readConfig({ path: 'config.json', architecture: 'Gemma3ForConditionalGeneration', json });
    };
    expect(read({ tie_word_embeddings: false }, {}).tieWordEmbeddings).toBe(false);
    expect(read({}, { tie_word_embeddings: false }).tieWordEmbeddings).toBe(true);
  });

  it('of Gemma 4 has other heads in layers without a window, of whose frequencies few turn', () => {
    const read = reader(gemma4);
    const fields = {
      hidden_size_per_layer_input: 0,
      num_hidden_layers: 6,
      head_dim: 16,
      num_key_value_heads: 2,
    };
    const near = { kvHeads: 2, headDim: 16, rotaryDim: 16, valuesAreKeys: false };
    const far = { kvHeads: 2, headDim: 512, rotaryDim: 512, valuesAreKeys: false };
    const plain = read(fields);
    expect(plain.layerWindows).toEqual([512, 512, 512, 512, 512, null]);
    expect(plain.layerHeads).toEqual([near, near, near, near, near, far]);
    expect(plain.layerRopes[0]).toEqual({ kind: 'default', theta: 10000 });
    expect(plain.layerRopes[5]).toEqual({ kind: 'proportional', theta: 1_000_000, factor: 1, share: 0.25 });
    expect(plain).toMatchObject({
      attentionScales: Array(6).fill(1),
      sharedKeys: null,
      layerInputs: null,
    });
    const large = { ...fields, global_head_dim: 32, num_global_key_value_heads: 1, attention_k_eq_v: true };
    const heads = { kvHeads: 1, headDim: 32, rotaryDim: 32, valuesAreKeys: true };
    expect(read(large).layerHeads?.[5]).toEqual(heads);
    const by = { 5: { head_dim: 32, num_key_value_heads: 1 } };
    expect(read({ ...fields, attention_k_eq_v: true, per_layer_config: by }).layerHeads?.[5]).toEqual(heads);
    // Only where keys are values is their number another.
    expect(read({ ...large, attention_k_eq_v: false }).layerHeads?.[5]).toMatchObject({ kvHeads: 2 });
  });

  it('of Gemma 4 shares keys with the last layer before that sees as far, and has embeddings for layers', () => {
    const small = {
      num_hidden_layers: 5,
      layer_types: ['sliding', 'full', 'sliding', 'sliding', 'full'].map((kind) => `${kind}_attention`),
      num_kv_shared_layers: 2,
      use_double_wide_mlp: true,
    };
    expect(reader(gemma4)(small)).toMatchObject({
      sharedKeys: { sources: [0, 1, 2, 2, 1] },
      layerWidths: [128, 128, 128, 256, 256],
      layerInputs: { width: 256, tokens: 100 },
    });
  });

  it.each([
    [{ use_bidirectional_attention: 'vision' }, 1120],
    [{}, null],
  ])('of Gemma 4 that sees images fills in what its release leaves out: %j', (fields, wholeImageTokens) => {
    const architecture = 'Gemma4ForConditionalGeneration';
    const json = {
      text_config: { pad_token_id: 3, ...fields },
      vision_config: { use_clipped_linears: true },
    };
    const config = gemma4.readConfig({ path: 'config.json', architecture, json });
    expect(config).toMatchObject({
      layerInputs: { ofImages: 3 },
      vision: {
        layers: { hiddenSize: 768, headDim: 64, numLayers: 16, activation: 'gelu_tanh' },
        patchSize: 16,
        patchesPerSide: 102,
        mergeSize: 3,
        positionsPerSide: 10240,
        wholeImageTokens,
        wholeInWindows: true,
        isStandardized: false,
        hasBounds: true,
      },
    });
    const textOnly = { text_config: {} };
    expect(gemma4.readConfig({ path: 'config.json', architecture, json: textOnly }).vision).toBeNull();
  });

  it('of Gemma 4 that takes images without a part that sees them fills in what its release leaves out', () => {
    const text_config = { hidden_size: 3840, num_hidden_layers: 6, use_bidirectional_attention: 'vision' };
    const architecture = 'Gemma4UnifiedForConditionalGeneration';
    const config = gemma4.readConfig({ path: 'config.json', architecture, json: { text_config } });
    expect(config).toMatchObject({
      layerWindows: [1024, 1024, 1024, 1024, 1024, null],
      maxPositionEmbeddings: 262144,
      layerInputs: null,
    });
  });

  it.each([
    [{ num_kv_shared_layers: 4 }, /num_kv_shared_layers must leave a layer of each kind .*, got 4/],
    [{ num_kv_shared_layers: 9 }, /num_kv_shared_layers must leave/],
    [{ use_bidirectional_attention: 'all' }, /use_bidirectional_attention all is not supported/],
    [{ vocab_size_per_layer_input: 7 }, /vocab_size_per_layer_input must be vocab_size, 100, got 7/],
    [{ layer_types: Array(4).fill('sliding_attention') }, /layer_types must end with full_attention/],
    [{ global_head_dim: 31 }, /global_head_dim/],
    [
      { attention_k_eq_v: true, num_global_key_value_heads: 3 },
      /num_attention_heads must be a multiple of num_global_key_value_heads, got 4 and 3/,
    ],
    [{ enable_moe_block: true }, /num_experts/],
    [
      { num_hidden_layers: 12, per_layer_config: { 5: { head_dim: 32 }, 11: { head_dim: 64 } } },
      /per_layer_config: all layers without a window must have one head_dim, got 32 and 64/,
    ],
    [
      { num_hidden_layers: 12, per_layer_config: { 5: { head_dim: 32 } } },
      /per_layer_config: all layers without a window must have one head_dim, got 32 and 512/,
    ],
    [
      { head_dim: 16, per_layer_config: { 0: { head_dim: 32 } } },
      /per_layer_config: layer 0 sees a window and must have the head_dim and num_key_value_heads of the whole model, 16 and 4, got 32 and 4/,
    ],
    [
      { head_dim: 16, per_layer_config: { 2: { num_key_value_heads: 1 } } },
      /per_layer_config: layer 2 sees a window .*, 16 and 4, got 16 and 1/,
    ],
  ])('of Gemma 4 is refused with %j', (fields, message) => {
    expect(() => reader(gemma4)(fields)).toThrow(message);
  });

  it('of Qwen with experts slides in other layers than Qwen without', () => {
    const experts = { num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32 };
    const window = { ...experts, use_sliding_window: true, sliding_window: 8, max_window_layers: 3 };
    const shared = { ...window, shared_expert_intermediate_size: 32 };
    expect(reader(qwen2Moe)(shared)).toMatchObject({ layerWindows: [8, null, 8, null], qkvBias: true });
    expect(reader(qwen2Moe)({ ...shared, qkv_bias: false }).qkvBias).toBe(false);
    expect(reader(qwen3Moe)(window).layerWindows).toEqual([8, 8, 8, 8]);
  });

  it('of GPT-OSS, Mixtral and Cohere fills in what its releases have where config.json is silent', () => {
    const experts = { num_local_experts: 4, num_experts_per_tok: 2 };
    expect(reader(gptOss)(experts)).toMatchObject({
      headDim: 64,
      normEps: 1e-5,
      layerRopes: Array(4).fill({
        kind: 'yarn',
        theta: 150_000,
        factor: 32,
        original: 4096,
        truncate: false,
      }),
    });
    const rope_scaling = { rope_type: 'linear', factor: 2 };
    expect(reader(gptOss)({ ...experts, rope_scaling }).layerRopes[0]).toMatchObject({ kind: 'linear' });
    expect(reader(mixtral)(experts).normEps).toBe(1e-5);
    expect(reader(cohere)({}).layerRopes[0]).toMatchObject({ theta: 500_000 });
    expect(reader(cohere2)({}).layerRopes[0]).toMatchObject({ theta: 10_000 });
  });

  it('of GPT-2 scales attention as it is told to', () => {
    const own = { n_embd: 64, n_layer: 4, n_head: 4, n_positions: 1000 };
    const read = (fields: object) => reader(gpt2)({ ...own, ...fields }).attentionScales;
    expect(read({})).toEqual([1 / 4, 1 / 4, 1 / 4, 1 / 4]);
    expect(read({ scale_attn_by_inverse_layer_idx: true })).toEqual([1 / 4, 1 / 8, 1 / 12, 1 / 16]);
    expect(read({ scale_attn_weights: false })).toEqual([1, 1, 1, 1]);
  });

  it.each(['kv_lora_rank', 'qk_nope_head_dim', 'qk_rope_head_dim', 'v_head_dim'])(
    'of DeepSeek is refused with a %s that no model has',
    (field) => {
      expect(() => reader(deepseekV2)({ ...EXPERT_FIELDS, [field]: 2 ** 40 })).toThrow(
        new RegExp(`config\\.json: ${field} must be at most 8192, got 1099511627776`),
      );
    },
  );

  it('of DeepSeek takes null for no groups of experts', () => {
    const config = reader(deepseekV2)({ ...EXPERT_FIELDS, n_group: null, topk_group: null, mlp_bias: true });
    expect(config).toMatchObject({ mlpBias: true, experts: { routing: { groups: null } } });
  });

  it('of SmolLM3 knows no positions in every fourth layer, or in those that it lists', () => {
    const read = reader(smollm3);
    const rotates = ({ layerRopes }: ModelConfig) => layerRopes.map((rope) => rope !== null);
    expect(rotates(read({}))).toEqual([true, true, true, false]);
    expect(rotates(read({ no_rope_layers: [0, 1, 1, 0] }))).toEqual([false, true, true, false]);
    expect(() => read({ no_rope_layers: [1] })).toThrow(/no_rope_layers must name 4 layers, got 1/);
  });

  it('of ERNIE 4.5 has heads of 128 numbers without experts, and by its width with them', () => {
    expect(reader(ernie45)({})).toMatchObject({
      headDim: 128,
      layerRopes: Array(4).fill({ theta: 500_000 }),
    });
    expect(reader(ernie45)({ head_dim: 32 }).headDim).toBe(32);
    const config = reader(ernie45Moe)({
      ...EXPERT_FIELDS,
      moe_layer_start_index: 2,
      moe_layer_end_index: -1,
    });
    expect(config).toMatchObject({ headDim: 16, experts: { layers: [false, false, true, true] } });
  });

  it('of dots.llm1 slides from layer max_window_layers on', () => {
    const read = (fields: object) => reader(dots1)({ ...EXPERT_FIELDS, ...fields }).layerWindows;
    expect(read({ sliding_window: 8, max_window_layers: 3 })).toEqual([null, null, null, 8]);
    expect(read({ sliding_window: null, max_window_layers: 3 })).toEqual([null, null, null, null]);
    expect(read({})).toEqual([null, null, null, null]);
  });

  it('of InternLM has biases of attention where it says so, and in 3 of feed-forwards, too', () => {
    const dynamic = { rope_scaling: { type: 'dynamic', factor: 2 }, rope_theta: 1_000_000 };
    expect(reader(internLm2)({ bias: false, ...dynamic })).toMatchObject({
      ...NO_TRAITS,
      maxPositionEmbeddings: 1000,
      longestContext: 2000,
      layerRopes: Array(4).fill({ kind: 'dynamic', theta: 1_000_000, factor: 2, original: 1000 }),
    });
    const both = { qkvBias: true, attentionOutputBias: true };
    expect(reader(internLm2)({})).toMatchObject({ ...NO_TRAITS, ...both });
    expect(reader(internLm3)({})).toMatchObject(NO_TRAITS);
    expect(reader(internLm3)({ qkv_bias: true })).toMatchObject({ ...NO_TRAITS, qkvBias: true });
    expect(reader(internLm3)({ bias: true })).toMatchObject({
      qkvBias: false,
      attentionOutputBias: true,
      mlpBias: true,
    });
  });

  it('of OLMo 1 bounds queries, keys and values where it says so', () => {
    const read = reader(olmo1);
    expect(read({ clip_qkv: null, rms_norm_eps: 1 })).toMatchObject({
      ...NO_TRAITS,
      normEps: 1e-5,
      qkvClip: null,
    });
    expect(read({ clip_qkv: 8, attention_bias: true })).toMatchObject({ qkvClip: 8, qkvBias: true });
    expect(() => read({ clip_qkv: -1 })).toThrow(/config\.json: clip_qkv/);
  });

  it('of OLMo 3 stretches positions of layers without a window only', () => {
    const yarn = { rope_type: 'yarn', factor: 8, original_max_position_embeddings: 100 };
    const old = reader(olmo3)({ rope_theta: 600_000, rope_scaling: yarn });
    expect(old.layerWindows).toEqual([4096, 4096, 4096, null]);
    const near = { kind: 'default', theta: 600_000 };
    expect(old.layerRopes).toMatchObject([near, near, near, { kind: 'yarn', theta: 600_000, factor: 8 }]);
    const rope_parameters = {
      full_attention: { ...yarn, rope_theta: 600_000 },
      sliding_attention: { rope_type: 'default', rope_theta: 600_000 },
    };
    expect(reader(olmo3)({ rope_parameters }).layerRopes).toEqual(old.layerRopes);
  });

  it('of EXAONE 4 slides as numbers or letters say, and without any window knows all positions', () => {
    const read = reader(exaone4);
    const rotates = ({ layerRopes }: ModelConfig) => layerRopes.map((rope) => rope !== null);
    const letters = read({ sliding_window: 8, sliding_window_pattern: 'LG' });
    expect(letters.layerWindows).toEqual([8, null, 8, null]);
    expect(rotates(letters)).toEqual([true, false, true, false]);
    expect(read({ sliding_window: 8, sliding_window_pattern: 'LLL' }).layerWindows).toEqual([8, 8, 8, null]);
    expect(read({ sliding_window: 8 }).layerWindows).toEqual([8, 8, 8, null]);
    expect(rotates(read({ sliding_window: null, sliding_window_pattern: null }))).toEqual(
      Array(4).fill(true),
    );
  });

  it('of Granite 4 without experts has the MLP that others share', () => {
    const own = { num_local_experts: 0, num_experts_per_tok: 0, shared_intermediate_size: 48 };
    const config = reader(graniteMoe)({ ...own, layer_types: Array(4).fill('attention') });
    expect(config).toMatchObject({ experts: null, intermediateSize: 48, layerWindows: Array(4).fill(null) });
    const rotates = (fields: object) => {
      const json = { ...FIELDS, ...own, ...fields };
      const file = { path: 'config.json', architecture: 'GraniteMoeHybridForCausalLM', json };
      return graniteMoe.readConfig(file).layerRopes[0] !== null;
    };
    expect(rotates({ position_embedding_type: 'rope' })).toBe(true);
    expect(rotates({ position_embedding_type: 'nope' })).toBe(false);
    expect(rotates({})).toBe(false);
  });

  it('of Nemotron-H has a block in each layer, by letters or by names', () => {
    const own = { n_routed_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 8 };
    const experts = { ...own, moe_shared_expert_intermediate_size: 12 };
    const read = reader(nemotronH);
    const letters = read({ ...experts, hybrid_override_pattern: 'M*-E', num_hidden_layers: 9 });
    expect(letters).toMatchObject({
      numLayers: 4,
      headDim: 128,
      activation: 'relu2',
      layerRopes: [null, null, null, null],
      feedForwards: [false, false, true, true],
      recurrent: { layers: [true, false, false, false], scan: { groups: 8, normGroups: 8 } },
      experts: { layers: [false, false, false, true], sharedIntermediateSize: 12, latentSize: null },
    });
    for (const field of ['layers_block_type', 'layer_types']) {
      expect(read({ ...experts, [field]: ['mamba', 'attention', 'mlp', 'moe'] })).toEqual(letters);
      expect(read({ ...experts, [field]: ['linear_attention', 'full_attention', 'mlp', 'moe'] })).toEqual(
        letters,
      );
    }
    expect(read({ hybrid_override_pattern: '*-' })).toMatchObject({ recurrent: null, experts: null });
    expect(read({ hybrid_override_pattern: '*', attention_head_dim: 24 }).headDim).toBe(24);
  });

  it('of Falcon-H1 has a scan beside attention in each layer, and factors on both', () => {
    const scan = { mamba_n_heads: 6, mamba_d_ssm: 72, mamba_n_groups: 2 };
    const onAttention = { attention_in_multiplier: 2, key_multiplier: 3, attention_out_multiplier: 0.5 };
    const others = { ssm_in_multiplier: 2, ssm_multipliers: [1, 2, 3, 4, 5], mlp_multipliers: [0.7, 0.6] };
    const config = reader(falconH1)({ ...scan, ...onAttention, ...others, ssm_out_multiplier: 0.25 });
    expect(config).toMatchObject({
      attentionScales: Array(4).fill((2 * 2 * 3) / Math.sqrt(16)),
      blockFactors: { attention: 1, scan: 0.25, gate: 0.7, feedForward: 0.6 },
      recurrent: {
        layers: Array(4).fill(true),
        isBesideAttention: true,
        scan: { headDim: 12, normGroups: null, factors: [2, 4, 6, 8, 10] },
      },
    });
    expect([numKvLayers(config), cacheLayerOf(config, { first: 1, end: 4 }, 2)]).toEqual([4, 1]);
    const normed = reader(falconH1)({ ...scan, mamba_rms_norm: true, mamba_norm_before_gate: false });
    expect(normed.recurrent?.scan).toMatchObject({ normGroups: 2, factors: [1, 1, 1, 1, 1] });
  });

  it('of MiniMax-M2 rotates as much of a head as it says', () => {
    const read = (fields: object) =>
      reader(minimaxM2)({ num_local_experts: 4, num_experts_per_tok: 2, ...fields });
    expect(read({ head_dim: 32, rotary_dim: 8, num_mtp_modules: 3 })).toMatchObject({
      rotaryDim: 8,
      numDraftLayers: 3,
      layerRopes: Array(4).fill({ kind: 'default', theta: 5_000_000 }),
      experts: { routing: { topK: 2, scores: 'sigmoid', isNormalized: true } },
    });
    expect(read({ head_dim: 32 }).rotaryDim).toBe(32);
    expect(() => read({ qk_norm_type: 'per_head' })).toThrow(/config\.json: qk_norm_type/);
  });

  it('of AFMoE knows positions where it has a window, and scales embeddings where it says so', () => {
    const fields = { num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 8, head_dim: 8 };
    const read = (more: object) => reader(afmoe)({ ...fields, ...more });
    const rope = { kind: 'default', theta: 10_000 };
    expect(read({})).toMatchObject({
      layerWindows: [1024, 1024, 1024, null],
      layerRopes: [rope, rope, rope, null],
      embeddingScale: 1,
      experts: { sharedIntermediateSize: 16, layers: [false, true, true, true], routing: { scale: 1 } },
    });
    expect(read({ mup_enabled: true, hidden_size: 64 }).embeddingScale).toBe(8);
  });

  it('of Apertus stretches positions as Llama 3 where it does not say how, and learns its activation', () => {
    const { layerRopes, hasHeadNorms } = reader(apertus)({ hidden_act: 'xielu' });
    const stretched = { factor: 8, lowFreqFactor: 1, highFreqFactor: 4, original: 8192 };
    expect(layerRopes[0]).toEqual({ kind: 'llama3', theta: 12_000_000, ...stretched });
    expect(hasHeadNorms).toBe(true);
    expect(() => reader(apertus)({ hidden_act: 'relu2' })).toThrow(/config\.json: hidden_act/);
  });

  it('of Phi-3.5-MoE shares weights among near experts, and takes the factor on angles that it names', () => {
    const read = (fields: object) =>
      reader(phiMoe)({ num_local_experts: 4, num_experts_per_tok: 2, ...fields });
    expect(read({ attention_bias: true, lm_head_bias: true })).toMatchObject({
      qkvBias: true,
      attentionOutputBias: true,
      headBias: true,
      experts: { routing: { topK: 2, isNormalized: false, nearness: 0.02 } },
    });
    const factors = Array(8).fill(1);
    const scaling = { type: 'longrope', short_factor: factors, long_factor: factors, short_mscale: 1.25 };
    for (const field of ['rope_scaling', 'rope_parameters']) {
      const { layerRopes } = read({ [field]: { ...scaling, long_mscale: 1.25 } });
      expect(layerRopes[0]).toMatchObject({ kind: 'longrope', attentionFactor: 1.25 });
      expect(() => read({ [field]: { ...scaling, long_mscale: 1.5 } })).toThrow(
        /short_mscale and long_mscale must be the same/,
      );
    }
    expect(() => read({ num_experts_per_tok: 1 })).toThrow(/config\.json: num_experts_per_tok/);
  });

  it('of GPT-J and CodeGen rotates as much of a head as it says, and has a head with a bias', () => {
    const read = (fields: object) => reader(gptJ)({ ...GPTJ_FIELDS, ...fields });
    expect(read({})).toMatchObject({
      ...NO_TRAITS,
      intermediateSize: 256,
      rotaryDim: 8,
      ropeIsInterleaved: true,
      activation: 'gelu_tanh',
      mlpBias: true,
      headBias: true,
    });
    expect(read({ n_inner: 96 }).intermediateSize).toBe(96);
    expect(() => read({ rotary_dim: null })).toThrow(/config\.json: rotary_dim/);
    expect(() => read({ tie_word_embeddings: true })).toThrow(/config\.json: tie_word_embeddings/);
    expect(() => reader(codeGen)({ ...GPTJ_FIELDS, n_head: 2 })).toThrow(
      /config\.json: n_head must be a multiple of 4, got 2/,
    );
  });

  it('of Phi has biases everywhere, and is refused with norms of heads or a head that is tied', () => {
    const read = reader(phi);
    expect(read({ partial_rotary_factor: 0.25 })).toMatchObject({
      activation: 'gelu_tanh',
      rotaryDim: 4,
      qkvBias: true,
      attentionOutputBias: true,
      mlpBias: true,
      headBias: true,
    });
    expect(() => read({ qk_layernorm: true })).toThrow(/config\.json: qk_layernorm/);
    expect(() => read({ tie_word_embeddings: true })).toThrow(/config\.json: tie_word_embeddings/);
  });

  it('of StableLM rotates a quarter of each head, and has biases, norms and blocks side by side where it says so', () => {
    const read = reader(stableLm);
    const plain = { ...NO_TRAITS, rotaryDim: 4, normEps: 1e-5, hasParallelBlocks: false };
    expect(read({})).toMatchObject(plain);
    expect(read({ use_qkv_bias: true, partial_rotary_factor: 0.5, layer_norm_eps: 1e-6 })).toMatchObject({
      ...plain,
      rotaryDim: 8,
      normEps: 1e-6,
      qkvBias: true,
    });
    expect(read({ qk_layernorm: true, use_parallel_residual: true })).toMatchObject({
      hasHeadNorms: true,
      hasParallelBlocks: true,
    });
  });

  it('of OPT is refused where words have another width, or norms come behind the blocks', () => {
    const read = (fields: object) => reader(opt)({ ffn_dim: 96, ...fields });
    const { intermediateSize, activation, layerRopes } = read({});
    expect([intermediateSize, activation, layerRopes]).toEqual([96, 'relu', Array(4).fill(null)]);
    expect(() => read({ word_embed_proj_dim: 16 })).toThrow(/word_embed_proj_dim/);
    expect(() => read({ do_layer_norm_before: false })).toThrow(/do_layer_norm_before/);
  });

  it('of Hunyuan takes a base of rotation that stretches positions as alpha does', () => {
    const theta = (fields: object) => reader(hunyuanDense)(fields).layerRopes[0];
    const stretched = { kind: 'default', theta: 874339.3 };
    const alpha = { type: 'dynamic', alpha: 50, factor: 1 };
    expect(theta({ rope_scaling: alpha })).toEqual(stretched);
    expect(theta({ rope_parameters: { ...alpha, rope_theta: 10_000 }, rope_theta: 7 })).toEqual(stretched);
    expect(theta({})).toEqual({ kind: 'default', theta: 10_000 });
    expect(theta({ rope_scaling: { type: 'linear', factor: 2 } })).toMatchObject({ kind: 'linear' });
  });

  it('of a part that reads text takes what the whole says, and a tied head from either', () => {
    const read = (json: object) =>
      mistral3.readConfig({ path: 'config.json', architecture: 'Mistral3ForConditionalGeneration', json });
    const text_config = { ...FIELDS, sliding_window: null };
    expect(read({ text_config, eos_token_id: 7 })).toMatchObject({
      eosTokenIds: [7],
      tieWordEmbeddings: false,
    });
    const tied = { ...text_config, tie_word_embeddings: true };
    expect(read({ text_config: tied }).tieWordEmbeddings).toBe(true);
    expect(read({ text_config: tied, tie_word_embeddings: false }).tieWordEmbeddings).toBe(false);
  });

  it('of Granite with windows rotates each layer by its own base, or not at all', () => {
    const granite = (fields: object) => reader(graniteSwa)({ num_hidden_layers: 4, ...fields });
    const { layerRopes, layerWindows } = granite({ layer_rope_theta: [0, 500, 500, 0], sliding_window: 8 });
    expect(layerRopes.map((rope) => rope && 'theta' in rope && rope.theta)).toEqual([null, 500, 500, null]);
    expect(layerRopes[2]).toBe(layerRopes[1]);
    expect(layerWindows).toEqual([null, 8, 8, 8]);
    expect(granite({ rope_theta: 7 }).layerRopes[3]).toMatchObject({ theta: 7 });
    expect(() => granite({ layer_rope_theta: [1] })).toThrow(
      /layer_rope_theta must have a number for each of 4 layers, got 1/,
    );
  });

  it('of Hunyuan with experts is served where all layers have as many', () => {
    const read = (fields: object) => reader(hunyuanMoe)({ num_experts: 4, moe_topk: 2, ...fields });
    expect(read({ moe_topk: [2, 2], moe_intermediate_size: [32, 32] }).experts).toMatchObject({
      intermediateSize: 32,
      sharedIntermediateSize: 32,
      routing: { topK: 2 },
    });
    expect(read({}).experts?.intermediateSize).toBe(FIELDS.intermediate_size);
    expect(() => read({ moe_topk: [2, 1] })).toThrow(/moe_topk must be the same in all layers/);
    expect(() => read({ num_shared_expert: [2, 2] })).toThrow(/num_shared_expert/);
  });

  it('of Solar Open needs no width of MLPs, which it does not have', () => {
    const { intermediate_size: _, ...fields } = EXPERT_FIELDS;
    const file = { path: 'config.json', architecture: 'Any', json: fields };
    expect(solarOpen.readConfig(file)).toMatchObject({
      rotaryDim: 16,
      layerRopes: Array(4).fill({ theta: 1_000_000 }),
    });
  });

  it('of Mistral Small 4 turns all of what queries have to be turned, whatever share of heads that is', () => {
    const rope_parameters = {
      rope_type: 'yarn',
      factor: 4,
      original_max_position_embeddings: 500,
      llama_4_scaling_beta: 0.1,
      partial_rotary_factor: 0.5,
    };
    const text = { ...EXPERT_FIELDS, model_type: 'mistral4', rope_parameters };
    const json = { text_config: text };
    expect(mistral3.readConfig({ path: 'config.json', architecture: 'Any', json })).toMatchObject({
      rotaryDim: EXPERT_FIELDS.qk_rope_head_dim,
      queryGrowth: { beta: 0.1, original: 500 },
      experts: { routing: { scores: 'softmax', isNormalized: true } },
    });
  });

  it('of Llama 4 sees chunks where it rotates, and all with growing queries where it does not', () => {
    const read = reader(llama4);
    expect(read({})).toMatchObject({
      headDim: 128,
      normEps: 1e-5,
      hasHeadNorms: true,
      ropeIsInterleaved: true,
      intermediateSize: 16_384,
      layerRopes: [...Array(3).fill({ kind: 'default', theta: 500_000 }), null],
      layerWindows: [8192, 8192, 8192, null],
      windowsAreChunks: true,
      queryGrowth: { beta: 0.1, original: 8192, first: 1, layers: 'without positions' },
      experts: {
        count: 16,
        intermediateSize: 128,
        sharedIntermediateSize: 128,
        routing: { topK: 1, scores: 'sigmoid', isNormalized: false, weighsInputs: true },
        layers: [true, true, true, true],
      },
    });
    const maverick = {
      num_local_experts: 128,
      interleave_moe_layer_step: 2,
      use_qk_norm: false,
      attn_temperature_tuning: 0,
    };
    expect(read(maverick)).toMatchObject({
      hasHeadNorms: false,
      queryGrowth: null,
      experts: { count: 128, layers: [false, true, false, true] },
    });
    const first = { no_rope_layers: [], attn_temperature_tuning: 4, moe_layers: [0, 3] };
    expect(read({ ...first, intermediate_size_mlp: 200 })).toMatchObject({
      intermediateSize: 200,
      layerWindows: [8192, 8192, 8192, null],
      queryGrowth: { beta: 0.1 },
      experts: { layers: [true, false, false, true] },
    });
    const listed = { no_rope_layers: [1, 0, 1, 0], layer_types: Array(4).fill('chunked_attention') };
    expect(read({ ...listed, attention_chunk_size: 64 })).toMatchObject({
      layerWindows: [64, 64, 64, 64],
      layerRopes: [{ theta: 500_000 }, null, { theta: 500_000 }, null],
    });
    expect(read({ attention_chunk_size: null }).slidingWindow).toBe(null);
    const file = { path: 'config.json', architecture: 'Any', json: { text_config: FIELDS } };
    expect(llama4Whole.readConfig(file)).toMatchObject({ windowsAreChunks: true, tieWordEmbeddings: false });
  });

  it.each([
    ['within a whole', mistral3, (fields: object) => ({ text_config: fields })],
    ['by itself', ministral3, (fields: object) => fields],
  ] as const)('of Ministral 3 %s says how its queries grow', (_, architecture, publish) => {
    const rope_parameters = {
      rope_type: 'yarn',
      factor: 16,
      original_max_position_embeddings: 500,
      llama_4_scaling_beta: 0.1,
    };
    const read = (rope: object) => {
      const json = publish({ ...FIELDS, model_type: 'ministral3', rope_parameters: rope });
      return architecture.readConfig({ path: 'config.json', architecture: 'Any', json });
    };
    expect(read(rope_parameters)).toMatchObject({
      maxPositionEmbeddings: 8000,
      longestContext: 8000,
      headDim: 128,
      slidingWindow: null,
      queryGrowth: { beta: 0.1, original: 500 },
    });
    expect(read({ ...rope_parameters, llama_4_scaling_beta: 0 }).queryGrowth).toBe(null);
    // By two tables, or of a part of each head, they would grow wrongly.
    for (const other of [{ rope_type: 'dynamic' }, { partial_rotary_factor: 0.5 }]) {
      expect(() => read({ ...rope_parameters, ...other })).toThrow(
        /llama_4_scaling_beta is served with rope type yarn that turns whole heads/,
      );
    }
  });

  it.each([
    ['beside those of the whole', (fields: object) => fields],
    ['by themselves', (fields: object) => ({ text_config: fields })],
  ] as const)('of Qwen2.5-VL rotates by one position, the fields of its text %s', (_, publish) => {
    const rope_scaling = { type: 'mrope', mrope_section: [2, 3, 3] };
    const json = publish({ ...FIELDS, rope_theta: 1_000_000, rope_scaling });
    const config = qwen2Vl.readConfig({ path: 'config.json', architecture: 'Any', json });
    expect(config.layerRopes).toEqual(Array(4).fill({ kind: 'default', theta: 1_000_000 }));
  });

  it('of Cohere 2 slides and rotates in three layers of four', () => {
    const config = reader(cohere2)({ sliding_window: 8 });
    expect(config.layerWindows).toEqual([8, 8, 8, null]);
    expect(config.layerRopes.map((rope) => rope !== null)).toEqual([true, true, true, false]);
    expect(config).toMatchObject({ logitScale: 0.0625, ropeIsInterleaved: true, normEps: 1e-5 });
  });

  it.each([
    ['Granite with a factor of 0', granite, { residual_multiplier: 0 }, /residual_multiplier must be/],
    [
      'Gemma 2 with a bound below 0',
      gemma2,
      { final_logit_softcapping: -1 },
      /final_logit_softcapping must be/,
    ],
    [
      'Granite 4 with layers of another kind',
      graniteMoe,
      { layer_types: ['mamba', 'attention', 'attention', 'conv'] },
      /layer_types must be mamba or linear_attention or attention or full_attention, got "conv"/,
    ],
    ...(
      [
        { attention_bias: true },
        { mamba_proj_bias: true },
        { projectors_bias: true },
        { mamba_rms_norm: true },
        { hidden_act: 'gelu' },
      ] as const
    ).map(
      (fields) =>
        [
          `Falcon-H1 of another form, ${Object.keys(fields)}`,
          falconH1,
          fields,
          /other forms of FalconH1ForCausalLM are not supported/,
        ] as const,
    ),
    [
      'Nemotron-H with a layer of another kind',
      nemotronH,
      { hybrid_override_pattern: 'M*X' },
      /hybrid_override_pattern and layers_block_type must be of M mamba .*, got "X"/,
    ],
    [
      'Nemotron-H without attention',
      nemotronH,
      { layers_block_type: ['mamba', 'mlp'] },
      /must name a layer of attention, got none/,
    ],
    [
      'Nemotron-H whose experts are not counted',
      nemotronH,
      {
        hybrid_override_pattern: '*E',
        num_experts_per_tok: 2,
        moe_intermediate_size: 8,
        moe_shared_expert_intermediate_size: 8,
      },
      /n_routed_experts must be the number of experts of a layer/,
    ],
    ['OLMoE that clips', olmoe, { num_experts: 4, num_experts_per_tok: 2, clip_qkv: 8 }, /clip_qkv must be/],
    ['Llama 4 with layers of another kind', llama4, { layer_types: ['sliding_attention'] }, /layer_types/],
    [
      'Llama 4 with more experts than there are',
      llama4,
      { num_experts_per_tok: 17 },
      /num_experts_per_tok must be/,
    ],
    [
      'Llama 4 that turns longer contexts otherwise',
      llama4,
      { rope_scaling: { rope_type: 'dynamic', factor: 4 } },
      /attn_temperature_tuning is served with rotations that are one for all contexts/,
    ],
    ['GPT-2 without its width', gpt2, {}, /n_embd/],
    ['GPT-NeoX that rotates more than a head', gptNeox, { rotary_pct: 2 }, /rotary_pct must be at most 1/],
  ] as const)('refuses %s, naming the field', (_, architecture, fields, message) => {
    expect(() => reader(architecture)(fields)).toThrow(message);
  });
});
