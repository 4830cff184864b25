// Gemma 3n: what its config.json and the keys of its GGUF files mean, and what its checkpoints have beside what is computed with.

import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { gemma3n } from '../../src/models/architectures/gemma3n.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { readSafetensors } from '../../src/models/source/safetensors.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { expectPossible } from '../../src/runner/expect-possible.ts';
import { type GgufValue, writeGguf } from '../fixtures/gguf-writer.ts';
import { writeSafetensors } from '../fixtures/safetensors-writer.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { goldenFolder } from './golden-cases.ts';
import { ModelSession } from './model-session.ts';

const newFolder = temporaryFolders();

/** As the releases have them, but narrower and with fewer layers. */
const TEXT = {
  vocab_size: 400,
  vocab_size_per_layer_input: 300,
  hidden_size: 64,
  intermediate_size: [96, 96, 96, 96, 96, 96],
  num_hidden_layers: 6,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  hidden_activation: 'gelu_pytorch_tanh',
  max_position_embeddings: 32768,
  sliding_window: 512,
  layer_types: ['sliding', 'full', 'sliding', 'sliding', 'sliding', 'full'].map(
    (kind) => `${kind}_attention`,
  ),
  rope_theta: 1_000_000,
  rope_local_base_freq: 10_000,
  rope_scaling: null,
  num_kv_shared_layers: 3,
  hidden_size_per_layer_input: 256,
  altup_num_inputs: 4,
  altup_active_idx: 0,
  altup_correct_scale: true,
  laurel_rank: 64,
  activation_sparsity_pattern: [0.95, 0.95, 0, 0, 0.5, 0],
  final_logit_softcapping: 30,
};

const read = (fields: object) =>
  gemma3n.readConfig({
    path: 'config.json',
    architecture: 'Gemma3nForConditionalGeneration',
    json: { text_config: { ...TEXT, ...fields }, eos_token_id: [1, 106] },
  });

describe('config.json of Gemma 3n', () => {
  it('says how far layers see, whose keys they see, and how many streams they have', () => {
    const near = { kind: 'default', theta: 10_000 };
    const far = { kind: 'default', theta: 1_000_000 };
    expect(read({})).toMatchObject({
      layerWindows: [512, null, 512, 512, 512, null],
      layerRopes: [near, far, near, near, near, far],
      attentionScales: Array(6).fill(1),
      embeddingScale: 8,
      tieWordEmbeddings: true,
      logitSoftcap: 30,
      eosTokenIds: [1, 106],
      sharedKeys: { sources: [0, 1, 2, 2, 2, 1] },
      intermediateSize: 96,
      layerWidths: null,
      layerInputs: { width: 256, tokens: 300 },
      streams: { count: 4, active: 0, hasOutputScale: true },
      laurelRank: 64,
    });
  });

  it('says which share of the gates of a layer is closed', () => {
    const { gateDeviations } = read({});
    expect(gateDeviations?.map((one) => one && Number(one.toFixed(6)))).toEqual([
      1.644854,
      1.644854,
      null,
      null,
      0,
      null,
    ]);
  });

  it('may give layers widths of their own, or one of all', () => {
    expect(read({ intermediate_size: [96, 32, 64, 96, 96, 96] })).toMatchObject({
      intermediateSize: 96,
      layerWidths: [96, 32, 64, 96, 96, 96],
    });
    expect(read({ intermediate_size: 32 })).toMatchObject({ intermediateSize: 32, layerWidths: null });
  });

  it('may leave out what is usual', () => {
    const { layer_types, activation_sparsity_pattern, altup_num_inputs, altup_active_idx, ...rest } = TEXT;
    const { laurel_rank, altup_correct_scale, final_logit_softcapping, sliding_window, ...least } = rest;
    const json = { ...least, num_hidden_layers: 15, intermediate_size: 96, num_kv_shared_layers: 5 };
    const config = gemma3n.readConfig({ path: 'config.json', architecture: 'Gemma3nForCausalLM', json });
    expect(config.layerWindows.map((window) => window === null)).toEqual(
      Array.from({ length: 15 }, (_, layer) => layer % 5 === 4),
    );
    expect(config.gateDeviations?.map((one) => one === null)).toEqual(
      Array.from({ length: 15 }, (_, layer) => layer >= 10),
    );
    expect(config).toMatchObject({
      slidingWindow: 512,
      logitSoftcap: 30,
      laurelRank: 64,
      streams: { count: 4, active: 0, hasOutputScale: true },
    });
  });

  it.each([
    [{ altup_active_idx: 4 }, /altup_active_idx must be below altup_num_inputs, 4, got 4/],
    [{ altup_num_inputs: 1 }, /altup_num_inputs/],
    [{ altup_num_inputs: 9 }, /altup_num_inputs/],
    [
      { vocab_size_per_layer_input: 401 },
      /vocab_size_per_layer_input must be at most vocab_size, 400, got 401/,
    ],
    [{ intermediate_size: [96, 96] }, /intermediate_size must have 6 items, one for each layer, got 2/],
    [{ activation_sparsity_pattern: [0.5] }, /activation_sparsity_pattern must have 6 items, .*, got 1/],
    [{ activation_sparsity_pattern: [1, 0, 0, 0, 0, 0] }, /activation_sparsity_pattern/],
    [{ num_kv_shared_layers: 5 }, /num_kv_shared_layers must leave a layer of each kind .*, got 5/],
  ])('is refused with %j', (fields, message) => {
    expect(() => read(fields)).toThrow(message);
  });
});

describe('the keys of a GGUF file of Gemma 3n', () => {
  const u32 = (value: number): GgufValue => ({ u32: value });
  const KEYS: Readonly<Record<string, GgufValue | undefined>> = {
    'general.architecture': { string: 'gemma3n' },
    'gemma3n.block_count': u32(5),
    'gemma3n.context_length': u32(64),
    'gemma3n.embedding_length': u32(8),
    'gemma3n.feed_forward_length': { i32s: [6, 6, 6, 4, 6] },
    'gemma3n.attention.head_count': u32(4),
    'gemma3n.attention.head_count_kv': u32(2),
    'gemma3n.attention.key_length': u32(4),
    'gemma3n.attention.value_length': u32(4),
    'gemma3n.attention.sliding_window': u32(5),
    'gemma3n.attention.sliding_window_pattern': { bools: [true, false, true, true, false] },
    'gemma3n.attention.shared_kv_layers': { f32: 2 },
    'gemma3n.rope.freq_base': { f32: 1_000_000 },
    'gemma3n.embedding_length_per_layer_input': u32(3),
    'gemma3n.altup.num_inputs': u32(4),
    'gemma3n.altup.active_idx': u32(1),
    'gemma3n.activation_sparsity_scale': {
      f32s: [1.5, Number.NEGATIVE_INFINITY, 1.5, Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY],
    },
  };

  function readFile(keys: Readonly<Record<string, GgufValue | undefined>>) {
    const path = `${newFolder()}.gguf`;
    const present = Object.entries(keys).flatMap(([key, value]) => (value ? [[key, value] as const] : []));
    const tensors = [
      { name: 'token_embd.weight', type: 'F32', shape: [9, 8] },
      { name: 'per_layer_token_embd.weight', type: 'F32', shape: [7, 15] },
      { name: 'blk.0.laurel_l.weight', type: 'F32', shape: [2, 8] },
    ] as const;
    writeGguf(path, Object.fromEntries(present), tensors, ({ shape }) => [
      new Uint8Array(4 * shape.reduce((product, size) => product * size, 1)),
    ]);
    return readModelConfig(openModelSource(path));
  }

  it('say what config.json says, and the rest is in the shapes of tensors', () => {
    const [near, far] = [10_000, 1_000_000].map((theta) => ({ kind: 'default', theta }));
    expect(readFile(KEYS)).toMatchObject({
      layerWindows: [5, null, 5, 5, null],
      layerRopes: [near, far, near, near, far],
      sharedKeys: { sources: [0, 1, 2, 2, 1] },
      layerWidths: [6, 6, 6, 4, 6],
      layerInputs: { width: 3, tokens: 7 },
      streams: { count: 4, active: 1, hasOutputScale: true },
      laurelRank: 2,
      gateDeviations: [1.5, null, 1.5, null, null],
      logitSoftcap: 30,
    });
  });

  it.each([
    'gemma3n.activation_sparsity_scale',
    'gemma3n.altup.num_inputs',
    'gemma3n.attention.shared_kv_layers',
  ])('must have %s', (key) => {
    expect(() => readFile({ ...KEYS, [key]: undefined })).toThrow(`the key ${key} is missing`);
  });
});

interface Changed {
  readonly name: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** The golden with other tensors, and other fields of its text part. */
function changed(change: (tensors: readonly Changed[]) => readonly Changed[], fields: object = {}): string {
  const folder = newFolder();
  cpSync(goldenFolder('gemma3n'), folder, { recursive: true });
  const [path, config] = [join(folder, 'model.safetensors'), join(folder, 'config.json')];
  const file = readFileSync(path);
  const own = [...readSafetensors(path)].map(([name, { shape, byteOffset, byteLength }]) => {
    return { name, shape, bytes: new Uint8Array(file.subarray(byteOffset, byteOffset + byteLength)) };
  });
  const tensors = change(own);
  const bytesOf = new Map(tensors.map(({ name, bytes }) => [name, bytes]));
  writeSafetensors(path, tensors, 'bf16', ({ name }) => [bytesOf.get(name)!]);
  const json: { text_config: object } = JSON.parse(readFileSync(config, 'utf8'));
  writeFileSync(config, JSON.stringify({ ...json, text_config: { ...json.text_config, ...fields } }));
  return folder;
}

async function load(folder: string) {
  const ops = new ReferenceOps();
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  const model = await loadModel(openModelSource(folder), ops, { dtype: 'auto', maxModelLen: 32, onWarning });
  return { ops, model, warnings };
}

describe('a checkpoint of Gemma 3n', () => {
  const zeros = (name: string, shape: readonly number[]): Changed => {
    return { name, shape, bytes: new Uint8Array(2 * shape.reduce((product, size) => product * size, 1)) };
  };

  it('may have keys and values for layers that see those of others, as releases do', async () => {
    const more = ['k_proj', 'v_proj', 'k_norm'].map((name) =>
      zeros(`model.language_model.layers.3.self_attn.${name}.weight`, [4, 4]),
    );
    const { warnings } = await load(changed((own) => [...own, ...more]));
    expect(warnings).toEqual([]);
  });

  it('has parts that see and hear, of whose tensors the load warns', async () => {
    const name = 'model.audio_tower.conformer.0.norm.weight';
    const { warnings } = await load(changed((own) => [...own, zeros(name, [4])]));
    expect(warnings).toEqual([expect.stringContaining(`these tensors are not used: ${name}`)]);
  });

  it('may have no embeddings for layers of its last tokens, which get zeros', async () => {
    const ids = [3, 79, 80, 95, 7];
    const cut = (fewer: boolean) => (own: readonly Changed[]) =>
      own.map((tensor) => {
        if (!tensor.name.endsWith('embed_tokens_per_layer.weight')) return tensor;
        const [, width] = tensor.shape;
        const kept = tensor.bytes.slice(0, 80 * width! * 2);
        if (fewer) return { ...tensor, shape: [80, width!], bytes: kept };
        const bytes = new Uint8Array(tensor.bytes.length);
        bytes.set(kept);
        return { ...tensor, bytes };
      });
    const run = async (folder: string) => {
      const { ops, model } = await load(folder);
      return new ModelSession(ops, model, ids.length).run(ids, ids.length);
    };
    const whole = await run(changed(cut(false)));
    expect(await run(changed(cut(true), { vocab_size_per_layer_input: 80 }))).toEqual(whole);
    expect(await run(goldenFolder('gemma3n'))).not.toEqual(whole);
  });

  it('is computed in one stage', () => {
    const config = readModelConfig(openModelSource(goldenFolder('gemma3n')));
    const start = () => expectPossible({ ...ENGINE_DEFAULTS, pipelineParallelSize: 2 }, config, null);
    expect(start).toThrow(/--pipeline-parallel-size 2 is not available for this model/);
  });
});
