// Encoders with rotated positions: what their config.json may say.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { findArchitecture } from '../../src/models/registry.ts';
import { poolingFolder } from '../engine/pooling-models.ts';

const thetaOf = (theta: number) => ({ kind: 'default', theta });

function configOf(folder: string, architecture: string, fields: object) {
  const json = JSON.parse(readFileSync(join(poolingFolder(folder), 'config.json'), 'utf8'));
  return findArchitecture(architecture).readConfig({
    path: 'config.json',
    architecture,
    json: { ...json, ...fields },
  });
}

describe('a Nomic BERT', () => {
  const read = (fields: object = {}) => configOf('nomic-bert-mean', 'NomicBertModel', fields);

  it('has the same shape by the fields of its authors and by those of transformers', () => {
    const usual = {
      hidden_size: 32,
      num_attention_heads: 4,
      intermediate_size: 48,
      num_hidden_layers: 2,
      max_position_embeddings: 128,
      layer_norm_eps: 1e-12,
      rope_parameters: { rope_type: 'default', rope_theta: 1000 },
      hidden_act: 'silu',
    };
    const authors = ['n_embd', 'n_head', 'n_inner', 'n_layer', 'n_positions', 'max_trained_positions'];
    const none = Object.fromEntries(authors.map((name) => [name, null]));
    expect(read(usual)).toEqual(read());
    expect(read({ ...usual, ...none })).toEqual(read());
  });

  it('reads texts as long as those that it was trained with', () => {
    expect(read().maxPositionEmbeddings).toBe(128);
    expect(read({ max_trained_positions: null }).maxPositionEmbeddings).toBe(512);
  });

  it('has the defaults of its code', () => {
    expect(read({ rotary_emb_base: 20_000 }).layerRopes).toEqual([thetaOf(20_000), thetaOf(20_000)]);
    expect(read({ rotary_emb_base: null }).layerRopes[0]).toEqual(thetaOf(1000));
    expect(read({ n_inner: null }).intermediateSize).toBe(128);
    expect(read({ type_vocab_size: null }).encoder?.numTokenTypes).toBe(2);
    expect(read({ activation_function: 'geglu' }).activation).toBe('gelu');
    expect(read({ layer_norm_epsilon: 1e-5 }).normEps).toBe(1e-5);
  });

  it.each([
    [{ prenorm: true }, /prenorm/],
    [{ causal: true }, /causal/],
    [{ use_rms_norm: true }, /use_rms_norm/],
    [{ parallel_block: true }, /parallel_block/],
    [{ qkv_proj_bias: true }, /qkv_proj_bias/],
    [{ rotary_emb_fraction: 0.5 }, /rotary_emb_fraction/],
    [{ rotary_emb_interleaved: true }, /rotary_emb_interleaved/],
    [{ activation_function: 'gelu' }, /activation_function/],
    [
      { moe_every_n_layers: 2 },
      /mixtures of experts \(moe_every_n_layers\) are not supported for NomicBertModel/,
    ],
  ])('is refused in another form, by name: %j', (fields, message) => {
    expect(() => read(fields)).toThrow(message);
  });
});

describe('a GTE', () => {
  const read = (fields: object, name = 'NewModel') => configOf('gte-reranker', name, fields);

  it('is turned as its name says where config.json does not', () => {
    const nothing = { rope_theta: null, rope_scaling: null };
    expect(read(nothing).layerRopes[0]).toEqual(thetaOf(10_000));
    expect(read(nothing, 'GteModel').layerRopes[0]).toEqual(thetaOf(160_000));
  });

  it('has one kind of texts where config.json does not say how many', () => {
    expect(read({ type_vocab_size: null }).encoder?.numTokenTypes).toBe(1);
    expect(read({ type_vocab_size: 0 }).encoder?.numTokenTypes).toBe(0);
  });

  it.each([
    [{ position_embedding_type: 'absolute' }, /position_embedding_type/],
    [{ layer_norm_type: 'rms_norm' }, /layer_norm_type/],
    [{ logn_attention_scale: true }, /logn_attention_scale/],
    [{ pack_qkv: false }, /pack_qkv/],
    [{ rope_scaling: { type: 'ntk' } }, /rope type ntk needs the field factor/],
  ])('is refused in another form, by name: %j', (fields, message) => {
    expect(() => read(fields)).toThrow(message);
  });
});
