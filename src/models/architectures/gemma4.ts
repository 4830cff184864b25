// Gemma 4: between the norms of Gemma 2 attention over normalised values, and a factor on the stream behind each layer. Layers without a
// window have larger heads, of which few frequencies turn. Large releases make their values of what their keys are made of; in one of them
// experts stand beside each feed-forward. In small ones the last layers see the keys and values of earlier ones, and each layer has an
// embedding of its own of each token (Google DeepMind, 2026). Of a model that also sees and hears, the parts that see and read
// text; of the one that does so without such parts (12B), the part that reads text.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import { attentionOf, sharedKeyAttention } from '../layers/attention.ts';
import type { Layer, LayerContext, LoadBlock, LoadLayer } from '../layers/layer.ts';
import { layerInputBlock, loadLayerInputs } from '../layers/layer-inputs.ts';
import { fusedAt, loadMixture } from '../layers/mixture.ts';
import { gatedMlp, withOwnWidth } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import {
  type ConfigFile,
  type LayerHeads,
  type LayerInputsConfig,
  layerHeadsOf,
  MAX_HEAD_DIM,
  type ModelConfig,
  readDecoderConfig,
  type SharedKeysConfig,
} from '../model-config.ts';
import { keepsKeys } from '../recurrent-layers.ts';
import { byLayerKind } from '../rope-by-layer-kind.ts';
import { resolveRope } from '../rope-config.ts';
import { type PublishedNames, USUAL_NAMES } from '../tensor-names.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { loadGemma4Vision } from '../vision/gemma4.ts';
import { readGemma4Vision } from '../vision/gemma4-config.ts';
import { gemmaTraits } from './gemma.ts';
import { attentionInSandwich, sandwichLayer } from './gemma2.ts';

export const gemma4: Architecture = {
  architectures: [
    'Gemma4ForCausalLM',
    'Gemma4ForConditionalGeneration',
    'Gemma4UnifiedForConditionalGeneration',
  ],
  readConfig: (file) => {
    switch (file.architecture) {
      case 'Gemma4ForConditionalGeneration':
        return readWhole(file);
      case 'Gemma4UnifiedForConditionalGeneration':
        return readText(textPart(file, USUAL_UNIFIED), IN_WHOLE);
      default:
        return readText(file, USUAL_NAMES);
    }
  },
  load: (context) => loadDecoder(context, { layer, norm: rmsNorm, layerInputs: loadLayerInputs }),
  loadImageEncoder: loadGemma4Vision,
};

const layer: LoadLayer = (all, index, prefix) => {
  const context = withOwnWidth(all, index);
  const { config, weights } = context;
  const blocks =
    config.experts === null
      ? sandwichLayer(normedAttention, rmsNorm)(context, index, prefix)
      : inOrder(
          attentionInSandwich(normedAttention, rmsNorm)(context, index, prefix),
          mlpBesideExperts(context, index, prefix),
        );
  const own = config.layerInputs === null ? [] : [ownInput(context, index, prefix)];
  const factor = weights.number(`${prefix}.layer_scalar`);
  return inOrder(blocks, ...own, (x, { ops }) => ops.scale(x, factor));
};

/** Over normalised values; of a layer that keeps no keys, over those of an earlier one. */
export const normedAttention: LoadBlock = (context, index, prefix) => {
  const { config, weights } = context;
  const { numHeads, hiddenSize, normEps: eps, qkvBias: bias, attentionOutputBias } = config;
  const { kvHeads, headDim, valuesAreKeys } = layerHeadsOf(config, index);
  const projection = (name: string, heads: number) => ({
    name: `${prefix}.${name}`,
    n: heads * headDim,
    bias,
  });
  const norm = (name: string) => weights.vector(`${prefix}.${name}.weight`, headDim);
  const queries = projection('q_proj', numHeads);
  const last = { name: `${prefix}.o_proj`, n: hiddenSize, bias: attentionOutputBias };
  const output = weights.row(last, numHeads * headDim);
  if (!keepsKeys(config, index)) {
    return sharedKeyAttention(context, index, {
      queries: weights.column(queries, hiddenSize),
      norm: { weight: norm('q_norm'), eps },
      output,
    });
  }
  const names = valuesAreKeys ? ['k_proj'] : ['k_proj', 'v_proj'];
  return attentionOf(context, index, {
    qkv: weights.columns([queries, ...names.map((name) => projection(name, kvHeads))], hiddenSize),
    headNorms: { query: norm('q_norm'), key: norm('k_norm'), eps },
    valueNorm: { weight: weights.constant(headDim, 1), eps },
    output,
  });
};

/** x += norm(norm1(mlp(x)) + norm2(experts(x))), of which each sees x through a norm of its own, and so does the router. */
function mlpBesideExperts(context: LayerContext, index: number, prefix: string): Layer {
  const { config, weights } = context;
  const { hiddenSize, normEps } = config;
  const norm = (name: string) => rmsNorm(context, `${prefix}.${name}`);
  const beforeMlp = norm('pre_feedforward_layernorm');
  const mlp = gatedMlp(context, index, `${prefix}.mlp`);
  const afterMlp = norm('post_feedforward_layernorm_1');
  const beforeExperts = norm('pre_feedforward_layernorm_2');
  const experts = loadMixture(context, prefix, {
    router: `${prefix}.router.proj`,
    factors: weights.vector(`${prefix}.router.per_expert_scale`, config.experts!.count),
    fused: fusedAt(`${prefix}.experts`),
  });
  const afterExperts = norm('post_feedforward_layernorm_2');
  const after = norm('post_feedforward_layernorm');
  const routerScale = weights.scaledVector(`${prefix}.router.scale`, hiddenSize, 1 / Math.sqrt(hiddenSize));
  return (x, step) => {
    const { ops } = step;
    const sum = afterMlp(step, mlp.apply(step, beforeMlp(step, x, mlp.inputDType)), 'f32');
    const routed = ops.rmsNorm(x, routerScale, normEps, experts.routerDType);
    const chosen = experts.apply(step, beforeExperts(step, x, experts.inputDType), routed);
    ops.addScaled(sum, afterExperts(step, chosen, 'f32'), 1);
    ops.addScaled(x, after(step, sum, 'f32'), 1);
  };
}

function ownInput(context: LayerContext, index: number, prefix: string): Layer {
  return residual({
    block: layerInputBlock(context, index, {
      gate: `${prefix}.per_layer_input_gate`,
      projection: `${prefix}.per_layer_projection`,
    }),
    after: rmsNorm(context, `${prefix}.post_per_layer_input_norm`),
  });
}

const size = z.int().positive();
const count = z.int().nonnegative();

const ownFields = z.object({
  num_hidden_layers: size,
  vocab_size: size,
  intermediate_size: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  global_head_dim: size.max(MAX_HEAD_DIM).multipleOf(2).nullish(),
  num_global_key_value_heads: size.nullish(),
  /** What transformers writes in the place of the two fields before, by layers. */
  per_layer_config: z
    .record(
      z.string(),
      z.object({
        head_dim: size.max(MAX_HEAD_DIM).multipleOf(2).nullish(),
        num_key_value_heads: size.nullish(),
      }),
    )
    .nullish(),
  attention_k_eq_v: z.boolean().nullish(),
  num_kv_shared_layers: count.nullish(),
  use_double_wide_mlp: z.boolean().nullish(),
  hidden_size_per_layer_input: count.nullish(),
  vocab_size_per_layer_input: size.nullish(),
  final_logit_softcapping: z.number().positive().nullish(),
  use_bidirectional_attention: z.string().nullish(),
  pad_token_id: count.nullish(),
  max_position_embeddings: z.number().positive().nullish(),
  enable_moe_block: z.boolean().nullish(),
});

type OwnFields = z.infer<typeof ownFields>;

const expertFields = z.object({ num_experts: size, top_k_experts: size, moe_intermediate_size: size });

/** What published files leave out, since it is usual. */
const USUAL_TEXT = {
  vocab_size: 262144,
  hidden_size: 2304,
  intermediate_size: 9216,
  num_hidden_layers: 30,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  max_position_embeddings: 131072,
};

/** The same of the release that takes images and sounds without parts that see or hear (12B). */
const USUAL_UNIFIED = {
  ...USUAL_TEXT,
  max_position_embeddings: 262144,
  sliding_window: 1024,
  hidden_size_per_layer_input: 0,
};

function readWhole(file: ConfigFile): ModelConfig {
  const part = textPart(file, USUAL_TEXT);
  const { use_bidirectional_attention: sight } = checkModelJson(part.path, part.json, ownFields);
  return { ...readText(part, IN_WHOLE), vision: readGemma4Vision(file, sight === 'vision') };
}

function readText(file: ConfigFile, tensorNames: PublishedNames): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  if (own.use_bidirectional_attention === 'all') {
    throw new ModelLoadError(
      `${file.path}: use_bidirectional_attention all is not supported: tokens must see those before them alone`,
    );
  }
  const { far, near } = byLayerKind(file);
  const localRope = resolveRope({
    path: file.path,
    fields: near ?? {},
    theta: near?.rope_theta ?? 10000,
    maxPositionEmbeddings: own.max_position_embeddings ?? 131072,
    rotaryDim: own.head_dim ?? 256,
  });
  const config = readDecoderConfig(far, (fields) => ({
    ...gemmaTraits(file, fields),
    attentionScale: 1,
    logitSoftcap: own.final_logit_softcapping ?? null,
    headDim: fields.head_dim ?? 256,
    slidingWindow: fields.sliding_window === undefined ? 512 : fields.sliding_window,
    slides: (index) => (index + 1) % 6 !== 0 && index + 1 < own.num_hidden_layers,
    rope: { rope_type: 'proportional', partial_rotary_factor: 0.25 },
    ropeTheta: 1_000_000,
    ropeOf: ({ isSliding }, rope) => (isSliding ? localRope : rope),
    tensorNames,
  }));
  const isLocal = config.layerRopes.map((rope) => rope === localRope);
  if (isLocal.at(-1))
    throw new ModelLoadError(`${file.path}: layer_types must end with full_attention, got sliding_attention`);
  return {
    ...config,
    layerHeads: readHeads(file.path, own, config, isLocal),
    sharedKeys: readSharedKeys(file.path, own.num_kv_shared_layers ?? 0, isLocal),
    layerWidths: readWidths(own),
    layerInputs: readLayerInputs(file.path, own),
    experts: own.enable_moe_block ? readExperts(file, config) : null,
  };
}

/** Those of layers without a window are others. */
function readHeads(
  path: string,
  own: OwnFields,
  { numHeads, numKvHeads, headDim }: ModelConfig,
  isLocal: readonly boolean[],
): LayerHeads[] {
  const valuesAreKeys = own.attention_k_eq_v ?? false;
  const layerHeads = isLocal.map((local, index) => {
    const given = own.per_layer_config?.[`${index}`];
    if (local) {
      expectUsualHeads(path, index, given, { numKvHeads, headDim });
      return { kvHeads: numKvHeads, headDim, rotaryDim: headDim, valuesAreKeys: false };
    }
    const published = valuesAreKeys ? own.num_global_key_value_heads : null;
    const kvHeads = given?.num_key_value_heads ?? published ?? numKvHeads;
    const dim = given?.head_dim ?? own.global_head_dim ?? 512;
    if (numHeads % kvHeads !== 0) {
      throw new ModelLoadError(
        `${path}: num_attention_heads must be a multiple of num_global_key_value_heads, got ${numHeads} and ${kvHeads}`,
      );
    }
    return { kvHeads, headDim: dim, rotaryDim: dim, valuesAreKeys };
  });
  expectOneHeadDim(path, layerHeads, isLocal);
  return layerHeads;
}

function expectUsualHeads(
  path: string,
  layer: number,
  given: NonNullable<OwnFields['per_layer_config']>[string] | undefined,
  { numKvHeads, headDim }: Pick<ModelConfig, 'numKvHeads' | 'headDim'>,
): void {
  const [dim, kvHeads] = [given?.head_dim ?? headDim, given?.num_key_value_heads ?? numKvHeads];
  if (dim === headDim && kvHeads === numKvHeads) return;
  throw new ModelLoadError(
    `${path}: per_layer_config: layer ${layer} sees a window and must have the head_dim and num_key_value_heads of the ` +
      `whole model, ${headDim} and ${numKvHeads}, got ${dim} and ${kvHeads}`,
  );
}

/** Layers that see equally far rotate by the same angles, and how these are spread depends on how large a head is. */
function expectOneHeadDim(
  path: string,
  layerHeads: readonly LayerHeads[],
  isLocal: readonly boolean[],
): void {
  const dims = new Set(layerHeads.filter((_, index) => !isLocal[index]).map(({ headDim }) => headDim));
  if (dims.size <= 1) return;
  throw new ModelLoadError(
    `${path}: per_layer_config: all layers without a window must have one head_dim, got ${[...dims].join(' and ')}`,
  );
}

/** The last layers see what the last one before them stored that sees as far. */
export function readSharedKeys(
  path: string,
  numShared: number,
  isLocal: readonly boolean[],
): SharedKeysConfig | null {
  if (numShared === 0) return null;
  const first = isLocal.length - numShared;
  const sources = isLocal.map((local, index) =>
    index < first ? index : isLocal.slice(0, Math.max(0, first)).lastIndexOf(local),
  );
  if (sources.includes(-1)) {
    throw new ModelLoadError(
      `${path}: num_kv_shared_layers must leave a layer of each kind before those that share its keys, got ${numShared}`,
    );
  }
  return { sources };
}

/** Layers without keys of their own may be twice as wide. */
function readWidths(own: OwnFields): number[] | null {
  if (!own.use_double_wide_mlp) return null;
  const { num_hidden_layers: count, intermediate_size: width } = own;
  const first = count - (own.num_kv_shared_layers ?? 0);
  return Array.from({ length: count }, (_, layer) => (layer < first ? width : 2 * width));
}

function readLayerInputs(path: string, own: OwnFields): LayerInputsConfig | null {
  const width = own.hidden_size_per_layer_input === undefined ? 256 : own.hidden_size_per_layer_input;
  if (!width) return null;
  const rows = own.vocab_size_per_layer_input ?? own.vocab_size;
  if (rows === own.vocab_size) return { width, tokens: rows, ofImages: own.pad_token_id ?? 0 };
  throw new ModelLoadError(
    `${path}: vocab_size_per_layer_input must be vocab_size, ${own.vocab_size}, got ${rows}: every token needs an embedding for layers`,
  );
}

function readExperts(file: ConfigFile, { layerWindows }: ModelConfig): ModelConfig['experts'] {
  const fields = checkModelJson(file.path, file.json, expertFields);
  return expectExperts(file.path, {
    count: fields.num_experts,
    intermediateSize: fields.moe_intermediate_size,
    routing: { topK: fields.top_k_experts, scores: 'softmax', isNormalized: true },
    layers: layerWindows.map(() => true),
  });
}
