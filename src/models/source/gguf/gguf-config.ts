// From what a GGUF file says of its model to the config.json that the original would have.

import { ModelLoadError } from '../../../errors.ts';
import { ENCODER_ARCHITECTURE, type GgufArchitecture } from './gguf-architecture.ts';
import { GGUF_ARCHITECTURES } from './gguf-architectures.ts';
import type { GgufKeys } from './gguf-keys.ts';
import { isReranker, labelFields } from './gguf-pooling.ts';

/** @throws ModelLoadError naming an architecture that svc does not read. */
export function findGgufArchitecture({ path, architecture }: GgufKeys): GgufArchitecture {
  if (Object.hasOwn(GGUF_ARCHITECTURES, architecture)) return GGUF_ARCHITECTURES[architecture]!;
  if (architecture === ENCODER_ARCHITECTURE) {
    throw new ModelLoadError(
      `${path} is what a model sees images with: name the *.gguf file of the model itself, which finds this one beside it`,
    );
  }
  throw new ModelLoadError(
    `${path}: architecture ${architecture} (general.architecture) is not supported; supported are ` +
      Object.keys(GGUF_ARCHITECTURES).join(', '),
  );
}

/** By their names in GGUF, as config.json names them. */
const DTYPES: ReadonlyMap<string, string> = new Map([
  ['F32', 'float32'],
  ['F16', 'float16'],
  ['BF16', 'bfloat16'],
]);

/**
 * The fields of config.json.
 * @param isQuantized whether any tensor is in blocks
 * @throws ModelLoadError where a key is missing or of the wrong type.
 */
export function ggufConfig(keys: GgufKeys, isQuantized: boolean): Readonly<Record<string, unknown>> {
  const { name, fields, yarn } = findGgufArchitecture(keys);
  const headDim = headDimOf(keys);
  const own = fields?.(keys) ?? {};
  return {
    architectures: [isReranker(keys) ? rerankerName(name(keys)) : name(keys)],
    vocab_size: keys.shapeOf('token_embd.weight')?.[0],
    hidden_size: keys.need('embedding_length'),
    intermediate_size: own.intermediate_size ?? widthOf(keys),
    num_hidden_layers: keys.numLayers,
    num_attention_heads: keys.need('attention.head_count'),
    num_key_value_heads: own.num_key_value_heads ?? keys.kvHeads,
    head_dim: headDim,
    max_position_embeddings: keys.need('context_length'),
    rms_norm_eps: keys.ofModel('attention.layer_norm_rms_epsilon'),
    rope_theta: keys.ofModel('rope.freq_base'),
    rope_scaling: withSections(keys, ropeScaling(keys, yarn)),
    partial_rotary_factor: (keys.ofModel('rope.dimension_count') ?? headDim) / headDim,
    sliding_window: keys.slidingWindow,
    tie_word_embeddings: !keys.hasTensor('output.weight'),
    attention_bias: keys.hasTensor('blk.0.attn_q.bias'),
    mlp_bias: keys.hasTensor('blk.0.ffn_up.bias'),
    torch_dtype: DTYPES.get(keys.formatOf('token_embd.weight') ?? ''),
    quantization_config: isQuantized ? { quant_method: 'gguf' } : null,
    is_causal: keys.flag(`${keys.architecture}.attention.causal`),
    ...(isReranker(keys) ? labelFields(keys) : {}),
    ...own,
  };
}

/** What an architecture is called with a head that scores. */
function rerankerName(name: string): string {
  return name.replace(/(ForCausalLM|Model)$/, 'ForSequenceClassification');
}

/** Of MLPs, which models have no need to say that have experts in all layers. */
function widthOf(keys: GgufKeys): number {
  const width = keys.ofModel('feed_forward_length') ?? keys.ofModel('expert_feed_forward_length');
  return width ?? keys.need('feed_forward_length');
}

/** Of queries and keys, which is that of values in all models that svc serves so. */
export function headDimOf(keys: GgufKeys): number {
  const own = findGgufArchitecture(keys).headDim?.(keys);
  if (own !== undefined) return own;
  const headDim =
    keys.ofModel('attention.key_length') ?? keys.need('embedding_length') / keys.need('attention.head_count');
  const valueDim = keys.ofModel('attention.value_length') ?? headDim;
  if (valueDim === headDim) return headDim;
  throw new ModelLoadError(
    `${keys.path}: heads of ${headDim} numbers in keys and ${valueDim} in values are not served`,
  );
}

/** Of models that see images: how many pairs of a head turn by position, by line and by column. */
function withSections(
  keys: GgufKeys,
  scaling: Readonly<Record<string, unknown>> | null,
): Readonly<Record<string, unknown>> | null {
  const sections = keys.numbers(`${keys.architecture}.rope.dimension_sections`);
  return sections === null
    ? scaling
    : { rope_type: 'default', ...scaling, mrope_section: sections.slice(0, 3) };
}

function ropeScaling(
  keys: GgufKeys,
  yarn: GgufArchitecture['yarn'],
): Readonly<Record<string, unknown>> | null {
  const original = keys.ofModel('rope.scaling.original_context_length');
  const [long, short] = [keys.vector('rope_factors_long.weight'), keys.vector('rope_factors_short.weight')];
  if (long !== null && short !== null) {
    return {
      rope_type: 'longrope',
      long_factor: long,
      short_factor: short,
      original_max_position_embeddings: original,
      attention_factor: keys.ofModel('rope.scaling.attn_factor'),
    };
  }
  // What Llama 3 divides its frequencies by is in the file number by number.
  const divisors = keys.vector('rope_freqs.weight');
  if (divisors !== null) {
    return { rope_type: 'longrope', long_factor: divisors, short_factor: divisors, attention_factor: 1 };
  }
  return namedScaling(keys, original, yarn);
}

function namedScaling(
  keys: GgufKeys,
  original: number | null,
  yarn: GgufArchitecture['yarn'],
): Readonly<Record<string, unknown>> | null {
  const kind = keys.text(`${keys.architecture}.rope.scaling.type`);
  if (kind === null || kind === 'none') return null;
  return {
    rope_type: kind,
    factor: keys.ofModel('rope.scaling.factor'),
    original_max_position_embeddings: original,
    attention_factor: keys.ofModel('rope.scaling.yarn_attn_factor'),
    beta_fast: keys.ofModel('rope.scaling.yarn_beta_fast'),
    beta_slow: keys.ofModel('rope.scaling.yarn_beta_slow'),
    ...(kind === 'yarn' ? yarn?.(keys) : {}),
  };
}
