// What it means that a checkpoint holds other layers or more tensors than its model asks for: nothing, a warning, or a
// config.json that does not describe it.

import { ModelLoadError } from '../../errors.ts';
import type { LayerRange } from '../layer-range.ts';
import type { ModelConfig } from '../model-config.ts';
import { keepsKeys } from '../recurrent-layers.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import type { TensorNames } from '../tensor-names.ts';

/** Buffers that some releases hold beside their weights and that are computed here: angles, and masks of attention. */
const COMPUTED =
  /\.(rotary_(emb|pos_emb)\.(inv_freq|cos_cached|sin_cached)|(attn|attention)\.(bias|masked_bias|causal_mask))$/;

/** Of encoders: counted positions, and what was on top of them in training. */
const OF_TRAINING =
  /(^|\.)(embeddings\.(position_ids|token_type_ids)|pooler\.dense\.\w+|cls\.predictions\..+|lm_head\..+|vocab_\w+\.\w+)$|^(head|decoder)\./;

/** Of layers that see the keys and values of others: some releases have their own all the same. */
const NEVER_SEEN = /\.self_attn\.(k_proj|v_proj|k_norm|v_norm)\.\w+$/;

/** Of models that see images: what does, which is not loaded where only text is served. */
const OF_IMAGES = /^(model\.)?(vision_model|vision_tower|visual|connector|multi_modal_projector)\./;

/** So many of a warning's tensors are named. */
const MOST_NAMED = 3;

/**
 * Before a weight is read.
 * @throws ModelLoadError where the checkpoint has other layers than its config.json.
 */
export function expectItsLayers(
  checkpoint: Checkpoint,
  { numLayers, numDraftLayers }: ModelConfig,
  { layers }: TensorNames,
): void {
  const indexOf = (name: string): number => layerOf(name, layers);
  const last = checkpoint.names.reduce((most, name) => Math.max(most, indexOf(name)), -1);
  // Where it has none, the first tensor that is missing tells more.
  if (last === -1 || (last >= numLayers - 1 && last < numLayers + numDraftLayers)) return;
  const example = checkpoint.names.find((name) => indexOf(name) === last);
  const effect = last < numLayers ? 'the others are missing' : 'the answers would be nonsense';
  throw new ModelLoadError(
    `${checkpoint.path}: the checkpoint has ${last + 1} layers (${example}), num_hidden_layers in config.json says ` +
      `${numLayers}: ${effect}; mend config.json (or --hf-overrides) or fetch the model again`,
  );
}

/**
 * Once the model has all that it asks for. Of a stage only its own layers are judged: the rest may be another's.
 * @returns what a person should know of the rest, null where there is nothing.
 * @throws ModelLoadError where a layer has tensors that this architecture does not compute with.
 */
export function judgeUnused(
  checkpoint: Checkpoint,
  config: ModelConfig,
  { head, layers }: TensorNames,
  range: LayerRange,
  seesImages: boolean,
): string | null {
  const isStage = range.end - range.first < config.numLayers;
  const isOfOthers = (layer: number): boolean => isStage && (layer < range.first || layer >= range.end);
  const hasNoKeys = (layer: number): boolean =>
    layer >= 0 && config.sharedKeys !== null && !keepsKeys(config, layer);
  const isHarmless = (name: string): boolean =>
    isOfOthers(layerOf(name, layers)) ||
    COMPUTED.test(name) ||
    layerOf(name, layers) >= config.numLayers ||
    (NEVER_SEEN.test(name) && hasNoKeys(layerOf(name, layers))) ||
    ((config.tieWordEmbeddings || config.pooling !== null) && name === `${head}.weight`) ||
    (config.pooling !== null && name === `${head}.bias`) ||
    (config.vision !== null && !seesImages && OF_IMAGES.test(name)) ||
    (config.encoder !== null && OF_TRAINING.test(name));
  const unused = checkpoint.unread().filter((name) => !isHarmless(name));
  const ofLayer = unused.find((name) => name.startsWith(`${layers}.`));
  if (ofLayer !== undefined) {
    throw new ModelLoadError(
      `${checkpoint.path}: tensor ${ofLayer} is in the checkpoint, ${config.architecture} with this config.json ` +
        'does not use it: the answers would be wrong; mend config.json or fetch the model again',
    );
  }
  if (unused.length === 0) return null;
  const more = unused.length > MOST_NAMED ? ` and ${unused.length - MOST_NAMED} more` : '';
  return `${checkpoint.path}: these tensors are not used: ${unused.slice(0, MOST_NAMED).join(', ')}${more}`;
}

/** -1 for tensors of no layer. */
function layerOf(name: string, layers: string): number {
  if (!name.startsWith(`${layers}.`)) return -1;
  return Number(/^\d+(?=\.)/.exec(name.slice(layers.length + 1))?.[0] ?? -1);
}
