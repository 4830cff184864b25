// A model in a GGUF file computes what the same model in a folder computes, bit for bit.

import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readGenerationConfig } from '../../src/models/generation-config.ts';
import { type LoadOptions, loadModel } from '../../src/models/load-model.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { GgufSource } from '../../src/models/source/gguf/gguf-source.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { BlockDType } from '../../src/ops/dtype.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import { blockFolder, type GgufModelOptions, writeGgufModel } from '../fixtures/gguf-model.ts';
import { type TinyModelOptions, writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends, type Backend, openRoundingBackend } from '../helpers/backends.ts';
import { BLOCK_DTYPES } from '../helpers/random-blocks.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { Random } from '../ops/native-backends.ts';
import { ModelSession } from './model-session.ts';

const newFolder = temporaryFolders();

function tinyModel(options: TinyModelOptions = {}): string {
  const folder = newFolder();
  writeTinyModel(folder, options);
  return folder;
}

function ggufOf(folder: string, options: GgufModelOptions = {}): string {
  const path = join(folder, 'model.gguf');
  writeGgufModel(folder, path, options);
  return path;
}

const IDS = Array.from({ length: 24 }, (_, i) => 5 + ((i * 37) % 320));

/** Logits of every token of a prompt, and the greedy tokens after it. */
async function answers(path: string, backend: Backend, options: Partial<LoadOptions> = {}, ids = IDS) {
  const ops = openRoundingBackend(backend);
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  const model = await loadModel(openModelSource(path), ops, {
    dtype: 'auto',
    maxModelLen: 64,
    onWarning,
    ...options,
  });
  const logits = new ModelSession(ops, model, 64).run(ids, ids.length);
  const greedy = new ModelSession(ops, model, 64).greedy(ids, 4);
  ops.close();
  return { logits, greedy, format: model.weightFormat, dtype: model.dtype, warnings };
}

/** Rows of whole blocks of every format. */
const K = {
  config: {
    hidden_size: 256,
    intermediate_size: 256,
    num_hidden_layers: 1,
    head_dim: 64,
    torch_dtype: 'bfloat16',
  },
};

describe.each(availableBackends)('a GGUF file on %s', (backend) => {
  it.each<[string, TinyModelOptions]>([
    ['LlamaForCausalLM', { dtype: 'f32' }],
    ['LlamaForCausalLM', { dtype: 'f16', config: { tie_word_embeddings: false } }],
    ['LlamaForCausalLM', { dtype: 'bf16', config: { attention_bias: true } }],
    ['MistralForCausalLM', { dtype: 'bf16' }],
    ['Qwen2ForCausalLM', { dtype: 'f32' }],
    ['Qwen3ForCausalLM', { dtype: 'bf16', config: { head_dim: 32 } }],
  ])('has the logits of the folder: %s, %o', async (architecture, options) => {
    const folder = tinyModel({ architecture, ...options });
    const expected = await answers(folder, backend);
    const got = await answers(ggufOf(folder), backend);
    expect(got).toEqual(expected);
  });

  // The numbers are defined once for all backends: of the reference it is to be seen that it reads blocks.
  const dtypes = backend === 'reference' ? (['q8_0', 'q4_k'] as const) : BLOCK_DTYPES;

  it.each(dtypes)(
    'in blocks of %s has the logits of a folder with the numbers of the blocks',
    async (dtype) => {
      const folder = tinyModel(K);
      const random = new Random(5);
      const blocks = blockFolder(
        folder,
        () => dtype,
        () => random.next(),
      );
      expect(blocks.size).toBe(8);
      const expected = await answers(folder, backend);
      const got = await answers(ggufOf(folder, { blocks }), backend);
      expect(got.logits).toEqual(expected.logits);
      expect(got.greedy).toEqual(expected.greedy);
      expect(got).toMatchObject({ format: dtype, warnings: [] });
    },
  );

  it.each<[string, Partial<Record<string, BlockDType>>, string, readonly unknown[]]>([
    ['queries, keys and values', { v_proj: 'q6_k' }, 'bf16+q4_k+q6_k', []],
    ['some of them in floats', { k_proj: undefined }, 'bf16+q4_k', []],
    [
      'gate and up',
      { up_proj: 'q5_k' },
      'bf16+q4_k',
      [expect.stringMatching(/^gates and ups in Q4_K, Q5_K are kept in bfloat16: they take [1-9][\d.]* KiB/)],
    ],
  ])(
    'has the logits of its numbers where what is multiplied together is in several formats: %s',
    async (_, formats, format, warnings) => {
      const folder = tinyModel(K);
      const random = new Random(6);
      const dtypeOf = (name: string): BlockDType | undefined => {
        const kind = name.split('.').at(-2)!;
        if (kind === 'o_proj') return undefined;
        return kind in formats ? formats[kind] : 'q4_k';
      };
      const blocks = blockFolder(folder, dtypeOf, () => random.next());
      const expected = await answers(folder, backend);
      const got = await answers(ggufOf(folder, { blocks }), backend);
      expect(got.logits).toEqual(expected.logits);
      expect(got).toMatchObject({ format, warnings });
    },
  );
});

describe('a GGUF file of each architecture', () => {
  const f32 = (value: number) => ({ f32: value });
  const factors = { 'rope_factors_short.weight': [1, 1.2, 1.5], 'rope_factors_long.weight': [1, 2, 4] };

  it.each<[string, string, object, GgufModelOptions]>([
    ['Gemma', 'gemma', {}, {}],
    [
      'Gemma 2',
      'gemma2',
      { query_pre_attn_scalar: 8, attn_logit_softcapping: 20, final_logit_softcapping: 10 },
      { metadata: { 'gemma2.attn_logit_softcapping': f32(20), 'gemma2.final_logit_softcapping': f32(10) } },
    ],
    [
      'Gemma 3',
      'gemma3',
      {
        query_pre_attn_scalar: 8,
        attn_logit_softcapping: null,
        final_logit_softcapping: null,
        layer_types: null,
      },
      {
        metadata: {
          'gemma3.rope.freq_base': f32(5000),
          'gemma3.rope.freq_base_swa': f32(100),
          'gemma3.rope.scaling.type': { string: 'linear' },
          'gemma3.rope.scaling.factor': f32(4),
        },
      },
    ],
    [
      'Mixtral',
      'mixtral',
      {},
      { metadata: { 'llama.expert_count': { u32: 5 }, 'llama.expert_used_count': { u32: 2 } } },
    ],
    [
      'Mixtral, each expert by itself',
      'mixtral',
      {},
      {
        expertsApart: true,
        metadata: { 'llama.expert_count': { u32: 5 }, 'llama.expert_used_count': { u32: 2 } },
      },
    ],
    [
      'Qwen2-MoE',
      'qwen2-moe',
      {},
      {
        metadata: {
          'qwen2moe.expert_count': { u32: 5 },
          'qwen2moe.expert_used_count': { u32: 3 },
          'qwen2moe.expert_feed_forward_length': { u32: 12 },
          'qwen2moe.expert_shared_feed_forward_length': { u32: 28 },
        },
      },
    ],
    [
      'Qwen3-MoE',
      'qwen3-moe',
      {},
      {
        metadata: {
          'qwen3moe.expert_count': { u32: 6 },
          'qwen3moe.expert_used_count': { u32: 2 },
          'qwen3moe.expert_feed_forward_length': { u32: 12 },
        },
      },
    ],
    ['Phi-3', 'phi3', {}, {}],
    [
      'Phi-3 with factors for short and for long texts',
      'phi3-longrope-short',
      {},
      { vectors: factors, metadata: { 'phi3.rope.scaling.original_context_length': { u32: 64 } } },
    ],
    [
      'Granite',
      'granite',
      { embedding_multiplier: 2, attention_multiplier: 0.5, residual_multiplier: 0.25, logits_scaling: 4 },
      {
        metadata: {
          'granite.embedding_scale': f32(2),
          'granite.attention.scale': f32(0.5),
          'granite.residual_scale': f32(0.25),
          'granite.logit_scale': f32(4),
        },
      },
    ],
    ['SmolLM3', 'smollm3', { no_rope_layers: null, no_rope_layer_interval: null }, {}],
    ['OLMo 2', 'olmo2', {}, {}],
    [
      'Command R',
      'cohere',
      {},
      {
        metadata: { 'command-r.logit_scale': f32(0.25), 'command-r.attention.layer_norm_epsilon': f32(1e-5) },
      },
    ],
    [
      'Command R+, whose heads are normalised',
      'cohere-plus',
      {},
      {
        metadata: {
          'command-r.logit_scale': f32(0.0625),
          'command-r.attention.layer_norm_epsilon': f32(1e-5),
        },
      },
    ],
    [
      'Command R7B',
      'cohere2',
      { layer_types: null, sliding_window_pattern: null },
      { metadata: { 'cohere2.logit_scale': f32(0.25), 'cohere2.attention.layer_norm_epsilon': f32(1e-5) } },
    ],
    ['StarCoder 2', 'starcoder2', {}, { metadata: { 'starcoder2.attention.layer_norm_epsilon': f32(1e-5) } }],
    ['GLM-4', 'glm4', {}, {}],
  ])('has the logits of the folder: %s', async (_, golden, fields, options) => {
    const folder = newFolder();
    cpSync(new URL(`../fixtures/goldens/${golden}`, import.meta.url), folder, { recursive: true });
    const path = join(folder, 'config.json');
    const config = { ...JSON.parse(readFileSync(path, 'utf8')), ...fields };
    writeFileSync(path, JSON.stringify(config));
    rmSync(join(folder, 'golden.safetensors'));
    const ids = IDS.map((id) => 3 + (id % 40));
    const logitsOf = async (source: string) =>
      (await answers(source, 'reference', { dtype: 'float32' }, ids)).logits;
    expect(await logitsOf(ggufOf(folder, options))).toEqual(await logitsOf(folder));
  });
});

describe('a GGUF file', () => {
  const backend = availableBackends.at(-1)!;

  it('says the same of the model as config.json and generation_config.json', () => {
    const folder = tinyModel({ architecture: 'Qwen3ForCausalLM', config: { rope_theta: 1e6 } });
    const path = ggufOf(folder);
    const [expected, got] = [folder, path].map((source) => readModelConfig(openModelSource(source)));
    expect(got).toEqual({ ...expected, eosTokenIds: [] });
    const generation = readGenerationConfig(openModelSource(path), { source: 'auto', override: null });
    expect(generation.eosTokenIds).toEqual([1]);
  });

  it('puts a space before the first word where it says so', async () => {
    const metadata = { 'tokenizer.ggml.add_space_prefix': { bool: true } };
    const { tokenizer } = await loadTokenizer(openModelSource(ggufOf(tinyModel(), { metadata })));
    const plain = await loadTokenizer(openModelSource(ggufOf(tinyModel())));
    const options = { addSpecialTokens: false };
    const ids = await tokenizer.encode('the cat', options);
    expect(ids).toEqual(await plain.tokenizer.encode(' the cat', options));
    expect(ids).not.toEqual(await plain.tokenizer.encode('the cat', options));
  });

  it('has the tokenizer and the chat template of the folder', async () => {
    const folder = tinyModel();
    const [expected, got] = await Promise.all(
      [folder, ggufOf(folder)].map((path) => loadTokenizer(openModelSource(path))),
    );
    const text = "Hello, the cat's 12 tales!\n\n  <|user|>über 漢字</s>";
    const ids = await expected!.tokenizer.encode(text, { addSpecialTokens: true });
    expect(await got!.tokenizer.encode(text, { addSpecialTokens: true })).toEqual(ids);
    expect(got!.tokenizer.eosTokenId).toBe(1);
    for (const skipSpecialTokens of [true, false]) {
      expect(await got!.tokenizer.decode(ids, { skipSpecialTokens })).toBe(
        await expected!.tokenizer.decode(ids, { skipSpecialTokens }),
      );
    }
    const messages = [{ role: 'user', content: 'Hi' }];
    const render = (loaded: typeof expected) =>
      loaded!.chatTemplate!.render(messages, { addGenerationPrompt: true });
    expect(await render(got)).toBe(await render(expected));
    for (const { tokenizer, chatTemplate } of [expected!, got!]) {
      await tokenizer.close();
      await chatTemplate?.close();
    }
  });

  it.each([
    ['listed', { 'tokenizer.chat_templates': { strings: ['rag', 'tool_use'] } }],
    ['not listed', {}],
  ])('renders conversations with tools by the template for them, %s', async (_, listed) => {
    const metadata = {
      ...listed,
      'tokenizer.chat_template': { string: 'plain' },
      'tokenizer.chat_template.tool_use': { string: 'tools' },
      'tokenizer.chat_template.rag': { string: 'documents' },
    };
    const { tokenizer, chatTemplate } = await loadTokenizer(
      openModelSource(ggufOf(tinyModel(), { metadata })),
    );
    const render = (tools: object[] | null) =>
      chatTemplate!.render([{ role: 'user', content: 'Hi' }], { addGenerationPrompt: true, tools });
    expect(await render(null)).toBe('plain');
    expect(await render([{ type: 'function' }])).toBe('tools');
    await tokenizer.close();
    await chatTemplate!.close();
  });

  it('is refused with templates of which none is for all conversations', async () => {
    const metadata = {
      'tokenizer.chat_template': undefined,
      'tokenizer.chat_templates': { strings: ['rag', 'tool_use'] },
      'tokenizer.chat_template.tool_use': { string: 'tools' },
      'tokenizer.chat_template.rag': { string: 'documents' },
    };
    await expect(loadTokenizer(openModelSource(ggufOf(tinyModel(), { metadata })))).rejects.toThrow(
      /model\.gguf: chat_template has the templates rag, tool_use, expected one named "default"/,
    );
  });

  it('ends answers at the tokens that end a turn, named by a key or known by their text', () => {
    const folder = tinyModel();
    const ids = (metadata: NonNullable<GgufModelOptions['metadata']>) =>
      readGenerationConfig(openModelSource(ggufOf(folder, { metadata })), { source: 'auto', override: null })
        .eosTokenIds;
    expect(ids({ 'tokenizer.ggml.eot_token_id': { u32: 4 } })).toEqual([1, 4]);
    const strings = ['<s>', '</s>', '<|im_end|>', '<|eot_id|>', 'a'];
    const tokens = {
      'tokenizer.ggml.tokens': { strings },
      'tokenizer.ggml.token_type': { i32s: [3, 3, 3, 1, 1] },
    };
    // An ordinary token of that text is none.
    expect(ids(tokens)).toEqual([1, 2]);
    const apertus = { strings: ['<s>', '</s>', '<|assistant_end|>', '<|tools_suffix|>', 'a'] };
    expect(
      ids({ 'tokenizer.ggml.tokens': apertus, 'tokenizer.ggml.token_type': { i32s: [3, 3, 3, 3, 1] } }),
    ).toEqual([1, 2, 3]);
  });

  it('divides the frequencies of its positions by the numbers in rope_freqs', async () => {
    const rope_scaling = {
      rope_type: 'llama3',
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 32,
    };
    const folder = tinyModel({ config: { rope_scaling } });
    const original = 32;
    const divisors = Array.from({ length: 8 }, (_, i) => {
      const turns = original / (2 * Math.PI * 10000 ** (i / 8));
      if (turns > 4) return 1;
      if (turns < 1) return 8;
      const smooth = (turns - 1) / 3;
      return 1 / ((1 - smooth) / 8 + smooth);
    });
    const expected = await answers(folder, backend);
    const got = await answers(ggufOf(folder, { vectors: { 'rope_freqs.weight': divisors } }), backend);
    for (const [i, logit] of expected.logits.entries()) expect(got.logits[i]).toBeCloseTo(logit, 4);
    expect(got.warnings).toEqual([]);
    expect((await answers(ggufOf(folder), backend)).logits[4000]).not.toBeCloseTo(expected.logits[4000]!, 4);
  });

  it('may be in several files, of which the first is named', async () => {
    const folder = tinyModel();
    const whole = await answers(ggufOf(folder), backend);
    const path = join(folder, 'tiny-00001-of-00003.gguf');
    writeGgufModel(folder, path, { parts: 3 });
    expect(await answers(path, backend)).toEqual(whole);
  });

  it('tells what its weights take once they are loaded: codes and scales, a little more than in the file', () => {
    const folder = tinyModel({ config: { hidden_size: 256, num_hidden_layers: 1, head_dim: 64 } });
    const random = new Random(8);
    const q4k = (name: string) => (name.endsWith('q_proj.weight') ? ('q4_k' as const) : undefined);
    const plain = new GgufSource(ggufOf(folder)).loadedBytes(true);
    const blocks = blockFolder(folder, q4k, () => random.next());
    // Of F32, codes of 4 bits with two bytes a group of 32 and two floats a block.
    const saved = 256 * (256 * 4 - (256 / 2 + 2 * 8 + 2 * 4));
    expect(plain - new GgufSource(ggufOf(folder, { blocks })).loadedBytes(true)).toBe(saved);
    // Of 6 bits, or of 8.
    const q6k = blockFolder(
      folder,
      (name) => (q4k(name) ? 'q6_k' : undefined),
      () => random.next(),
    );
    const wider = new GgufSource(ggufOf(folder, { blocks: q6k }));
    expect(wider.loadedBytes(false) - wider.loadedBytes(true)).toBe((256 * 256 * 2) / 8);
  });

  it('may end in capitals, whole or in parts', async () => {
    const folder = tinyModel();
    const expected = await answers(ggufOf(folder), backend);
    const [whole, part] = ['TINY.GGUF', 'TINY-00001-of-00002.GGUF'].map((name) => join(folder, name));
    writeGgufModel(folder, whole!, {});
    writeGgufModel(folder, part!, { parts: 2 });
    expect(await answers(whole!, backend)).toEqual(expected);
    expect(await answers(part!, backend)).toEqual(expected);
    const random = new Random(9);
    const k = tinyModel(K);
    const blocks = blockFolder(
      k,
      () => 'q4_k',
      () => random.next(),
    );
    const inCapitals = join(k, 'BLOCKS.GGUF');
    writeGgufModel(k, inCapitals, { blocks });
    expect((await answers(inCapitals, backend)).format).toBe('q4_k');
  });

  it('has the fingerprint of its bytes', () => {
    const folder = tinyModel();
    const print = (path: string) => openModelSource(path).fingerprint();
    const first = print(ggufOf(folder));
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(print(ggufOf(folder))).toBe(first);
    expect(print(ggufOf(folder, { metadata: { 'general.name': { string: 'other' } } }))).not.toBe(first);
    expect(print(folder)).not.toBe(first);
  });

  it('becomes int8 as the folder with its numbers does, in floats and in blocks of several formats', async () => {
    const [floats, numbers] = [tinyModel(), tinyModel(K)];
    const random = new Random(7);
    const formats: Partial<Record<string, BlockDType>> = { v_proj: 'q6_k', up_proj: 'q5_k', o_proj: 'q8_0' };
    const blocks = blockFolder(
      numbers,
      (name) => formats[name.split('.').at(-2)!] ?? 'q4_k',
      () => random.next(),
    );
    for (const [folder, options] of [
      [floats, {}],
      [numbers, { blocks }],
    ] as const) {
      const expected = await answers(folder, backend, { quantization: 'int8' });
      const got = await answers(ggufOf(folder, options), backend, { quantization: 'int8' });
      expect(got).toEqual(expected);
      expect(got).toMatchObject({ format: 'int8', warnings: [] });
    }
  });

  it('in blocks is quantised to nothing else', async () => {
    const folder = tinyModel();
    const random = new Random(7);
    const blocks = blockFolder(
      folder,
      () => 'q8_0',
      () => random.next(),
    );
    const loading = answers(ggufOf(folder, { blocks }), backend, { quantization: 'fp8' });
    await expect(loading).rejects.toThrow(
      /model\.gguf are quantised already \(gguf\): leave out --quantization, or give int8/,
    );
  });
});
