// Gemma 3n: attention and layer inputs of what became Gemma 4 over several streams (see layers/streams.ts), a low-rank product beside
// attention (LAuReL: Menghani, Kumar and Kumar, 2024), and in the first layers feed-forwards most of whose gates are closed (Google DeepMind,
// 2025). Of a model that also sees and hears, the part that reads text.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { MOST_STREAMS } from '../../ops/ops.ts';
import { checkModelJson } from '../../util/model-file.ts';
import { normalQuantile } from '../../util/normal-distribution.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import type { LoadLayer } from '../layers/layer.ts';
import { loadLayerInputs } from '../layers/layer-inputs.ts';
import { gatedMlp, sparseGatedMlp, withOwnWidth } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { alternatingLayer, loadStreams } from '../layers/streams.ts';
import {
  type ConfigFile,
  type LayerInputsConfig,
  MAX_LAYERS,
  type ModelConfig,
  readDecoderConfig,
  type StreamsConfig,
} from '../model-config.ts';
import { byLayerKind } from '../rope-by-layer-kind.ts';
import { resolveRope } from '../rope-config.ts';
import { type PublishedNames, USUAL_NAMES } from '../tensor-names.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { gemmaTraits } from './gemma.ts';
import { normedAttention, readSharedKeys } from './gemma4.ts';

export const gemma3n: Architecture = {
  architectures: ['Gemma3nForCausalLM', 'Gemma3nForConditionalGeneration'],
  readConfig: (file) =>
    file.architecture === 'Gemma3nForConditionalGeneration'
      ? readText(textPart(file), IN_WHOLE)
      : readText(file, USUAL_NAMES),
  load: (context) =>
    loadDecoder(context, {
      layer: alternatingLayer(blocks),
      norm: rmsNorm,
      layerInputs: loadLayerInputs,
      streams: loadStreams,
    }),
};

const blocks: LoadLayer = (all, index, prefix) => {
  const context = withOwnWidth(all, index);
  const deviations = context.config.gateDeviations?.[index] ?? null;
  const mlp = deviations === null ? gatedMlp : sparseGatedMlp(deviations);
  return inOrder(
    attentionBesideLaurel(context, index, prefix),
    residual({
      before: rmsNorm(context, `${prefix}.pre_feedforward_layernorm`),
      block: mlp(context, index, `${prefix}.mlp`),
      after: rmsNorm(context, `${prefix}.post_feedforward_layernorm`),
    }),
  );
};

/** x = (x + norm(attention(h)) + h + norm(right(left(h)))) / sqrt(2) of h = norm(x) */
const attentionBesideLaurel: LoadLayer = (context, index, prefix) => {
  const { config, weights } = context;
  const { hiddenSize } = config;
  const rank = config.laurelRank!;
  const before = rmsNorm(context, `${prefix}.input_layernorm`);
  const left = weights.column({ name: `${prefix}.laurel.linear_left`, n: rank, shared: null }, hiddenSize);
  const right = weights.row({ name: `${prefix}.laurel.linear_right`, n: hiddenSize }, rank, true);
  const afterRight = rmsNorm(context, `${prefix}.laurel.post_laurel_norm`);
  const attention = normedAttention(context, index, `${prefix}.self_attn`);
  const afterAttention = rmsNorm(context, `${prefix}.post_attention_layernorm`);
  return (x, step) => {
    const { ops } = step;
    const h = before(step, x, 'f32');
    const low = left.apply(step, ops.cast(h, left.inputDType));
    const laurel = right.apply(step, ops.cast(low, right.inputDType));
    const attended = attention.apply(step, ops.cast(h, attention.inputDType));
    ops.addScaled(x, afterAttention(step, attended, 'f32'), 1);
    ops.addScaled(x, h, 1);
    ops.addScaled(x, afterRight(step, laurel, 'f32'), 1);
    ops.scale(x, Math.SQRT1_2);
  };
};

const size = z.int().positive();
const count = z.int().nonnegative();

const ownFields = z.looseObject({
  num_hidden_layers: size.max(MAX_LAYERS),
  vocab_size: size,
  /** Of all layers, or of each. */
  intermediate_size: z.union([size, z.array(size).nonempty()]),
  head_dim: size.nullish(),
  max_position_embeddings: z.number().positive().nullish(),
  rope_local_base_freq: z.number().positive().nullish(),
  final_logit_softcapping: z.number().positive().nullish(),
  num_kv_shared_layers: count.nullish(),
  hidden_size_per_layer_input: size.nullish(),
  vocab_size_per_layer_input: size.nullish(),
  altup_num_inputs: size.min(2).max(MOST_STREAMS).nullish(),
  altup_active_idx: count.nullish(),
  altup_correct_scale: z.boolean().nullish(),
  laurel_rank: size.nullish(),
  /** [layers] share of the gates that are closed. */
  activation_sparsity_pattern: z.array(z.number().nonnegative().lt(1)).nullish(),
  /** [layers] what GGUF files have in its place: what `gateDeviations` are. */
  activation_sparsity_scale: z.array(z.number().nullable()).nullish(),
});

type OwnFields = z.infer<typeof ownFields>;

function readText(file: ConfigFile, tensorNames: PublishedNames): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const widths = readWidths(file.path, own);
  const { far, near } = byLayerKind({ ...file, json: { ...own, intermediate_size: Math.max(...widths) } });
  const localRope = resolveRope({
    path: file.path,
    fields: near ?? {},
    theta: near?.rope_theta ?? own.rope_local_base_freq ?? 10000,
    maxPositionEmbeddings: own.max_position_embeddings ?? 32768,
    rotaryDim: own.head_dim ?? 256,
  });
  const config = readDecoderConfig(far, (fields) => ({
    ...gemmaTraits(file, fields),
    attentionScale: 1,
    logitSoftcap: own.final_logit_softcapping === undefined ? 30 : own.final_logit_softcapping,
    headDim: fields.head_dim ?? 256,
    slidingWindow: fields.sliding_window === undefined ? 512 : fields.sliding_window,
    slides: (index) => (index + 1) % 5 !== 0,
    ropeTheta: 1_000_000,
    ropeOf: ({ isSliding }, rope) => (isSliding ? localRope : rope),
    tensorNames,
  }));
  const isLocal = config.layerRopes.map((rope) => rope === localRope);
  return {
    ...config,
    sharedKeys: readSharedKeys(file.path, own.num_kv_shared_layers ?? 15, isLocal),
    layerWidths: widths.every((width) => width === widths[0]) ? null : widths,
    layerInputs: readLayerInputs(file.path, own),
    streams: readStreams(file.path, own),
    laurelRank: own.laurel_rank ?? 64,
    gateDeviations: readDeviations(file.path, own),
  };
}

function readWidths(path: string, own: OwnFields): number[] {
  const { num_hidden_layers: layers, intermediate_size: widths } = own;
  if (typeof widths === 'number') return new Array<number>(layers).fill(widths);
  return expectEach(path, 'intermediate_size', widths, layers);
}

function expectEach<T>(path: string, field: string, list: readonly T[], layers: number): T[] {
  if (list.length === layers) return [...list];
  throw new ModelLoadError(
    `${path}: ${field} must have ${layers} items, one for each layer, got ${list.length}`,
  );
}

/** Tokens behind those of the table, which stand for images and sounds, have none. */
function readLayerInputs(path: string, own: OwnFields): LayerInputsConfig {
  const tokens = own.vocab_size_per_layer_input ?? Math.min(262144, own.vocab_size);
  if (tokens <= own.vocab_size) return { width: own.hidden_size_per_layer_input ?? 256, tokens };
  throw new ModelLoadError(
    `${path}: vocab_size_per_layer_input must be at most vocab_size, ${own.vocab_size}, got ${tokens}`,
  );
}

function readStreams(path: string, own: OwnFields): StreamsConfig {
  const streams = own.altup_num_inputs ?? 4;
  const active = own.altup_active_idx ?? 0;
  if (active >= streams) {
    throw new ModelLoadError(
      `${path}: altup_active_idx must be below altup_num_inputs, ${streams}, got ${active}`,
    );
  }
  return {
    count: streams,
    active,
    hasOutputScale: own.altup_correct_scale ?? true,
  };
}

function readDeviations(path: string, own: OwnFields): (number | null)[] {
  const { num_hidden_layers: layers, activation_sparsity_scale: scale } = own;
  if (scale) return expectEach(path, 'activation_sparsity_scale', scale, layers);
  const usual = Array.from({ length: layers }, (_, layer) => (layers > 10 && layer < 10 ? 0.95 : 0));
  const shares = own.activation_sparsity_pattern ?? usual;
  return expectEach(path, 'activation_sparsity_pattern', shares, layers).map((share) =>
    share === 0 ? null : normalQuantile(share),
  );
}
