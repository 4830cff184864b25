// The kinds of rotary position embedding that a config.json may ask for, under its old and its new field names.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { preview } from '../util/preview.ts';

/** Lengths are in tokens; `original` is the context length that the model was first trained on. */
export type RopeConfig =
  | { readonly kind: 'default'; readonly theta: number }
  | { readonly kind: 'linear'; readonly theta: number; readonly factor: number }
  | ProportionalRope
  | { readonly kind: 'dynamic'; readonly theta: number; readonly factor: number; readonly original: number }
  | Llama3Rope
  | YarnRope
  | LongRope;

/** Only the fastest frequencies turn: so large a share of them, from 0 to 1. The others leave their numbers as they are. */
export interface ProportionalRope {
  readonly kind: 'proportional';
  readonly theta: number;
  readonly factor: number;
  readonly share: number;
}

export interface Llama3Rope {
  readonly kind: 'llama3';
  readonly theta: number;
  readonly factor: number;
  readonly lowFreqFactor: number;
  readonly highFreqFactor: number;
  readonly original: number;
}

export interface YarnRope {
  readonly kind: 'yarn';
  readonly theta: number;
  readonly factor: number;
  readonly original: number;
  readonly betaFast: number;
  readonly betaSlow: number;
  /** Factor on cosines and sines. */
  readonly attentionFactor: number;
  /** Factor that some architectures have on queries and keys, or on what of them is not rotated. */
  readonly mscale: number;
  /** Whether the range of interpolated frequencies ends on whole ones. */
  readonly truncate: boolean;
}

export interface LongRope {
  readonly kind: 'longrope';
  readonly theta: number;
  readonly original: number;
  /** A divisor a frequency, [rotaryDim / 2]: for contexts up to `original`, and for longer ones. */
  readonly shortFactor: readonly number[];
  readonly longFactor: readonly number[];
  readonly attentionFactor: number;
}

const positive = z.number().positive();

/** Both `rope_scaling` and `rope_parameters`. */
export const ropeFields = z.object({
  rope_type: z.string().nullish(),
  type: z.string().nullish(),
  rope_theta: positive.nullish(),
  factor: positive.nullish(),
  original_max_position_embeddings: positive.nullish(),
  low_freq_factor: positive.nullish(),
  high_freq_factor: positive.nullish(),
  beta_fast: positive.nullish(),
  beta_slow: positive.nullish(),
  attention_factor: positive.nullish(),
  mscale: z.number().nullish(),
  mscale_all_dim: z.number().nullish(),
  truncate: z.boolean().nullish(),
  short_factor: z.array(positive).nullish(),
  long_factor: z.array(positive).nullish(),
  partial_rotary_factor: positive.max(1).nullish(),
});

export type RopeFields = z.infer<typeof ropeFields>;

interface RopeSource {
  readonly path: string;
  readonly fields: RopeFields;
  readonly theta: number;
  readonly maxPositionEmbeddings: number;
  /** Numbers of a head that are rotated. */
  readonly rotaryDim: number;
}

/** @throws ModelLoadError for a kind that is not supported, or one whose numbers are missing. */
export function resolveRope(source: RopeSource): RopeConfig {
  const { fields, theta, path } = source;
  const kind = fields.rope_type ?? fields.type ?? 'default';
  const original = fields.original_max_position_embeddings ?? source.maxPositionEmbeddings;
  switch (kind) {
    case 'default':
      return { kind, theta };
    case 'linear':
      return { kind, theta, factor: need(source, 'factor') };
    case 'ntk': {
      // As GTE publishes it: NTK-aware, and so that the slowest frequency is stretched by the factor once more.
      const factor = need(source, 'factor');
      return { kind: 'linear', theta: theta * factor, factor: factor ** (2 / source.rotaryDim) };
    }
    case 'proportional':
      return { kind, theta, factor: fields.factor ?? 1, share: fields.partial_rotary_factor ?? 1 };
    case 'dynamic':
      return { kind, theta, factor: need(source, 'factor'), original: source.maxPositionEmbeddings };
    case 'llama3':
      return {
        kind,
        theta,
        factor: need(source, 'factor'),
        lowFreqFactor: need(source, 'low_freq_factor'),
        highFreqFactor: need(source, 'high_freq_factor'),
        original,
      };
    case 'yarn':
      return resolveYarn(source, original);
    case 'longrope':
    case 'su':
      return resolveLongRope(source, original);
    default:
      throw new ModelLoadError(
        `${path}: rope type ${preview(kind)} is not supported; ` +
          'these are: default, linear, ntk, proportional, dynamic, llama3, yarn, longrope',
      );
  }
}

/** Contexts that a model is made for, in tokens; only here do the kinds disagree about max_position_embeddings. */
export function contextLengths(
  rope: RopeConfig,
  maxPositionEmbeddings: number,
): { readonly maxPositionEmbeddings: number; readonly longestContext: number } {
  const same = (length: number) => ({ maxPositionEmbeddings: length, longestContext: length });
  // Published with the length before stretching, and stretched anew for each length beyond it.
  if (rope.kind === 'dynamic') {
    return { maxPositionEmbeddings, longestContext: Math.floor(maxPositionEmbeddings * rope.factor) };
  }
  if (rope.kind === 'yarn')
    return same(Math.max(maxPositionEmbeddings, Math.floor(rope.original * rope.factor)));
  return same(maxPositionEmbeddings);
}

function resolveYarn(source: RopeSource, original: number): YarnRope {
  const { fields, theta, maxPositionEmbeddings } = source;
  const factor = fields.factor ?? maxPositionEmbeddings / original;
  return {
    kind: 'yarn',
    theta,
    factor,
    original,
    betaFast: fields.beta_fast ?? 32,
    betaSlow: fields.beta_slow ?? 1,
    attentionFactor: fields.attention_factor ?? yarnAttentionFactor(factor, fields),
    mscale: yarnScale(factor, fields.mscale_all_dim ?? 0),
    truncate: fields.truncate ?? true,
  };
}

function yarnAttentionFactor(factor: number, { mscale, mscale_all_dim }: RopeFields): number {
  if (!mscale || !mscale_all_dim) return yarnScale(factor, 1);
  return yarnScale(factor, mscale) / yarnScale(factor, mscale_all_dim);
}

function yarnScale(factor: number, weight: number): number {
  return factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1;
}

function resolveLongRope(source: RopeSource, original: number): LongRope {
  const { fields, theta, maxPositionEmbeddings } = source;
  const factor = fields.factor ?? maxPositionEmbeddings / original;
  const stretch = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(original));
  return {
    kind: 'longrope',
    theta,
    original,
    shortFactor: needFactors(source, 'short_factor'),
    longFactor: needFactors(source, 'long_factor'),
    attentionFactor: fields.attention_factor ?? stretch,
  };
}

function need(
  { fields, path }: RopeSource,
  field: 'factor' | 'low_freq_factor' | 'high_freq_factor',
): number {
  const value = fields[field];
  if (value !== null && value !== undefined) return value;
  throw new ModelLoadError(`${path}: rope type ${fields.rope_type ?? fields.type} needs the field ${field}`);
}

function needFactors(source: RopeSource, field: 'short_factor' | 'long_factor'): readonly number[] {
  const factors = source.fields[field];
  const count = source.rotaryDim / 2;
  if (factors?.length === count) return factors;
  const got = factors ? `${factors.length} numbers` : 'nothing';
  throw new ModelLoadError(`${source.path}: ${field} must hold ${count} numbers, got ${got}`);
}
