// InternVL in the form of its authors: the same numbers as in that of transformers.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { readSafetensors } from '../../src/models/source/safetensors.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type TensorShape, writeSafetensors } from '../fixtures/safetensors-writer.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { ModelSession } from './model-session.ts';
import { COLOURS, casesOf, FOLDER } from './vision-cases.ts';

const newFolder = temporaryFolders();

const NAMES: readonly (readonly [from: RegExp, to: string])[] = [
  [/^(model\.)?language_model\./, 'language_model.model.'],
  [/^lm_head/, 'language_model.lm_head'],
  [/^(model\.)?vision_tower\.embeddings\.cls_token/, 'vision_model.embeddings.class_embedding'],
  [/^(model\.)?vision_tower\.embeddings\.position_embeddings/, 'vision_model.embeddings.position_embedding'],
  [
    /^(model\.)?vision_tower\.embeddings\.patch_embeddings\.projection/,
    'vision_model.embeddings.patch_embedding',
  ],
  [/^(model\.)?vision_tower\.encoder\.layer\./, 'vision_model.encoder.layers.'],
  [/\.attention\.projection_layer\./, '.attn.proj.'],
  [/\.attention\./, '.attn.'],
  [/\.layernorm_before\./, '.norm1.'],
  [/\.layernorm_after\./, '.norm2.'],
  [/\.lambda_(\d)$/, '.ls$1'],
  [/^(model\.)?multi_modal_projector\.layer_norm/, 'mlp1.0'],
  [/^(model\.)?multi_modal_projector\.linear_1/, 'mlp1.1'],
  [/^(model\.)?multi_modal_projector\.linear_2/, 'mlp1.3'],
];

function authorsName(name: string): string {
  return NAMES.reduce((renamed, [from, to]) => renamed.replace(from, to), name);
}

interface Stored extends TensorShape {
  readonly bytes: Uint8Array;
}

/** Queries, keys and values of the encoder are one tensor there. */
function authorsTensors(name: string): Stored[] {
  const path = `${FOLDER}/${name}/model.safetensors`;
  const file = readFileSync(path);
  const all = new Map<string, Stored>();
  for (const [published, { shape, byteOffset, byteLength }] of readSafetensors(path)) {
    const own = authorsName(published);
    all.set(own, { name: own, shape, bytes: file.subarray(byteOffset, byteOffset + byteLength) });
  }
  for (const [own, { shape }] of all) {
    const [prefix, kind] = own.split('.attn.q_proj.');
    if (kind === undefined) continue;
    const parts = ['q_proj', 'k_proj', 'v_proj'].map((part) => `${prefix}.attn.${part}.${kind}`);
    const bytes = Buffer.concat(parts.map((part) => all.get(part)!.bytes));
    const fused = `${prefix}.attn.qkv.${kind}`;
    all.set(fused, { name: fused, shape: [3 * shape[0]!, ...shape.slice(1)], bytes });
    for (const part of parts) all.delete(part);
  }
  return [...all.values()];
}

function configOf(name: string) {
  const { text_config, vision_config, downsample_ratio } = JSON.parse(
    readFileSync(`${FOLDER}/${name}/config.json`, 'utf8'),
  );
  const { attention_bias, use_qk_norm, image_size, patch_size, ...vision } = vision_config;
  return {
    architectures: ['InternVLChatModel'],
    llm_config: text_config,
    vision_config: {
      ...vision,
      image_size: image_size[0],
      patch_size: patch_size[0],
      qkv_bias: attention_bias,
      qk_normalization: use_qk_norm,
    },
    downsample_ratio,
    select_layer: -1,
    ps_version: 'v2',
    // As published, beside text parts that are tied and others that are not.
    tie_word_embeddings: true,
  };
}

function writeAuthorsForm(name: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  const tensors = authorsTensors(name);
  writeSafetensors(join(folder, 'model.safetensors'), tensors, 'bf16', ({ name: own }) => [
    tensors.find((tensor) => tensor.name === own)!.bytes,
  ]);
  writeFileSync(join(folder, 'config.json'), JSON.stringify(configOf(name)));
}

describe.each(['internvl', 'internvl-large'])('%s in the form of its authors', (name) => {
  const folder = newFolder();

  it('makes the same rows and logits, to the bit', async () => {
    writeAuthorsForm(name, folder);
    const load = async (path: string) => {
      const ops = new ReferenceOps();
      const model = await loadModel(openModelSource(path), ops, { dtype: 'float32', maxModelLen: null });
      return { ops, model };
    };
    const [of, as] = [await load(`${FOLDER}/${name}`), await load(folder)];
    for (const { ids, tiles, places, images, rows } of casesOf(name)) {
      const [expected, got] = [of, as].map(({ ops, model }) => ({
        rows: tiles.map((tile) => model.imageEncoder!.encode(tile, COLOURS)),
        logits: new ModelSession(ops, model, ids.length).run(ids, ids.length, {
          rows: places,
          values: rows.values,
          images,
        }),
      }));
      expect(got).toEqual(expected);
    }
  });
});

const refused = newFolder();

it.each<[Record<string, unknown>, RegExp]>([
  [{ ps_version: 'v1' }, /ps_version/],
  [{ select_layer: -2 }, /select_layer/],
  [{ llm_config: { model_type: 'phi3' } }, /llm_config\.model_type/],
  [{ llm_config: undefined }, /llm_config is missing/],
])('InternVL in the form of its authors is refused with %j', (fields, message) => {
  mkdirSync(refused, { recursive: true });
  writeFileSync(join(refused, 'config.json'), JSON.stringify({ ...configOf('internvl'), ...fields }));
  const read = () => readModelConfig(openModelSource(refused));
  expect(read).toThrow(ModelLoadError);
  expect(read).toThrow(message);
});
