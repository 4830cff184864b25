// What config.json may say of InternVL, in both of its forms.

import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { internVl } from '../../src/models/architectures/internvl.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { COLOURS, FOLDER } from './vision-cases.ts';

const TEXT = {
  vocab_size: 100,
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  max_position_embeddings: 1000,
};

function read(architecture: string, fields: object) {
  return internVl.readConfig({ path: 'config.json', architecture, json: fields });
}

const usual = (vision: object = {}, more: object = {}) =>
  read('InternVLForConditionalGeneration', { text_config: TEXT, vision_config: vision, ...more });
const authors = (vision: object = {}, more: object = {}) =>
  read('InternVLChatModel', { llm_config: TEXT, vision_config: vision, ps_version: 'v2', ...more });

describe('an InternVL', () => {
  it('has the encoder of most releases where config.json does not say more', () => {
    const { vision, qkvBias } = usual();
    // Qwen 2 reads its text.
    expect(qkvBias).toBe(true);
    expect(vision).toMatchObject({ patchSize: 14, patchesPerSide: 32, mergeSize: 2, hasTileToken: true });
    expect(vision?.layers).toMatchObject({
      hiddenSize: 1024,
      intermediateSize: 4096,
      numLayers: 24,
      numHeads: 16,
      normEps: 1e-6,
      qkvBias: false,
      hasHeadNorms: false,
      activation: 'gelu',
    });
    expect(authors().vision?.layers.qkvBias).toBe(true);
  });

  it('is as config.json says', () => {
    const vision = { layer_norm_eps: 1e-5, image_size: 224, patch_size: [14, 14], use_qk_norm: true };
    expect(usual(vision, { downsample_ratio: 0.25 }).vision).toMatchObject({
      patchesPerSide: 16,
      mergeSize: 4,
      layers: { normEps: 1e-5, hasHeadNorms: true },
    });
    const large = authors({ qk_normalization: true, qkv_bias: false }, { downsample_ratio: 0.25 });
    expect(large.vision).toMatchObject({ mergeSize: 4, layers: { qkvBias: false, hasHeadNorms: true } });
  });

  it('has the text part that it names', () => {
    const text = (model_type: string, more: object = {}) =>
      usual({}, { text_config: { ...TEXT, model_type, ...more } });
    expect(text('llama').qkvBias).toBe(false);
    expect(text('qwen3').hasHeadNorms).toBe(true);
    const experts = { num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 16 };
    expect(text('qwen3_moe', experts).experts).not.toBeNull();
    expect(authors({}, { llm_config: { ...TEXT, model_type: 'qwen3' } }).hasHeadNorms).toBe(true);
  });

  it('in the form of its authors is tied where its text part is', () => {
    const tied = (whole: boolean, text: boolean | undefined) =>
      authors({}, { tie_word_embeddings: whole, llm_config: { ...TEXT, tie_word_embeddings: text } })
        .tieWordEmbeddings;
    expect([tied(true, false), tied(false, true), tied(true, undefined)]).toEqual([false, true, false]);
  });

  it.each<[object, object, RegExp]>([
    [{ use_mean_pooling: false }, {}, /use_mean_pooling/],
    [{ use_absolute_position_embeddings: false }, {}, /use_absolute_position_embeddings/],
    [{ image_size: [448, 224] }, {}, /image_size/],
    [{}, { vision_feature_layer: -2 }, /vision_feature_layer/],
    [{}, { vision_feature_select_strategy: 'full' }, /vision_feature_select_strategy/],
    [{}, { projector_hidden_act: 'relu' }, /projector_hidden_act/],
    [{}, { text_config: { ...TEXT, model_type: 'phi3' } }, /model_type/],
  ])('is refused in another form: %j %j', (vision, more, message) => {
    expect(() => usual(vision, more)).toThrow(ModelLoadError);
    expect(() => usual(vision, more)).toThrow(message);
  });

  it('sees tiles of its own size alone', async () => {
    const ops = new ReferenceOps();
    const model = await loadModel(openModelSource(`${FOLDER}/internvl`), ops, {
      dtype: 'float32',
      maxModelLen: null,
    });
    const tile = { rows: 2, cols: 2, patches: new Uint8Array(4 * 3 * 16) };
    expect(() => model.imageEncoder!.encode(tile, COLOURS)).toThrow(
      'a tile has 4 patches on each side, not 2 x 2',
    );
  });
});
