// The format of compressed-tensors: groups of projections, each with a scheme of its own.
// Source: github.com/neuralmagic/compressed-tensors (quantization_config, and the tensors beside `name.weight_scale`).

import { z } from 'zod';
import { ModelLoadError } from '../../errors.ts';
import type { CodesWeightSource, LinearWeightSource } from '../../ops/weights.ts';
import { preview } from '../../util/preview.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import { blockScales, float8Weight } from './float8-weight.ts';
import { groupSizeFor } from './group-size.ts';
import type { FindWeight, QuantizationMethod, QuantizedProjection } from './method.ts';

const weights = z.object({
  num_bits: z.int(),
  type: z.string(),
  symmetric: z.boolean(),
  strategy: z.string(),
  group_size: z.int().nullish(),
  block_structure: z.array(z.int()).nullish(),
});
const whole = weights.extend({ type: z.literal('int') });
const grouped = z.enum(['tensor', 'channel', 'group']);
const anyInputs = z.unknown().optional();

/** W8A8: products of whole numbers. */
const int8Inputs = z.object({
  num_bits: z.literal(8),
  type: z.literal('int'),
  symmetric: z.literal(true),
  strategy: z.literal('token'),
  dynamic: z.literal(true),
});
const w8a8 = z.object({
  format: z.literal('int-quantized'),
  weights: whole.extend({
    num_bits: z.literal(8),
    symmetric: z.literal(true),
    strategy: z.literal('channel'),
  }),
  input_activations: int8Inputs,
});
const w8a16 = z.object({
  format: z.literal('int-quantized'),
  weights: whole.extend({ num_bits: z.literal(8), strategy: grouped }),
  input_activations: z.null().optional(),
});
const packed = z.object({
  format: z.literal('pack-quantized'),
  weights: whole.extend({ num_bits: z.union([z.literal(4), z.literal(8)]), strategy: grouped }),
  input_activations: z.null().optional(),
});
/** Inputs stay in bfloat16, however the scheme would quantise them: that is nearer to the model before. */
const float8 = z.object({
  format: z.literal('float-quantized'),
  weights: weights.extend({
    num_bits: z.literal(8),
    type: z.literal('float'),
    symmetric: z.literal(true),
    strategy: z.enum(['tensor', 'channel', 'block']),
    block_structure: z.tuple([z.literal(128), z.literal(128)]).nullish(),
  }),
  input_activations: anyInputs,
});
const mxfp4 = z.object({
  format: z.literal('mxfp4-pack-quantized'),
  weights: weights.extend({
    num_bits: z.literal(4),
    type: z.literal('float'),
    strategy: z.literal('group'),
    group_size: z.literal(32),
  }),
  input_activations: anyInputs,
});

const scheme = z.union([w8a8, w8a16, packed, float8, mxfp4]);
type Scheme = z.output<typeof scheme>;

/** Null where the format is not served. */
function schemaOf({ format, input_activations: inputs }: Record<string, unknown>): z.ZodType<Scheme> | null {
  switch (format) {
    case 'int-quantized':
      return inputs === null || inputs === undefined ? w8a16 : w8a8;
    case 'pack-quantized':
      return packed;
    case 'float-quantized':
      return float8;
    case 'mxfp4-pack-quantized':
      return mxfp4;
    default:
      return null;
  }
}

const group = z.looseObject({ targets: z.array(z.string()).min(1), format: z.string().nullish() });
const schema = z.object({
  format: z.string(),
  config_groups: z.record(z.string(), group),
  ignore: z.array(z.string()).nullish(),
  kv_cache_scheme: z.null().optional(),
});
type Config = z.output<typeof schema>;

export const compressedTensors: QuantizationMethod<Config> = {
  schema: schema.superRefine((config, context) => {
    for (const [name, { format: own, ...fields }] of Object.entries(config.config_groups)) {
      const format = own ?? config.format;
      const served = schemaOf({ ...fields, format });
      if (served === null) {
        const message = `must be int-quantized, pack-quantized, float-quantized or mxfp4-pack-quantized, it is ${format}`;
        context.addIssue({ code: 'custom', path: ['format'], message });
      }
      for (const { path, message } of served?.safeParse({ ...fields, format }).error?.issues ?? []) {
        context.addIssue({ code: 'custom', path: ['config_groups', name, ...path], message });
      }
    }
  }),
  served: 'W8A8 with one scale a channel and token, W8A16, W4A16, FP8 and MXFP4',
  finder({ format, config_groups, ignore }, path) {
    const ignored = (ignore ?? []).map((text) => rule(path, 'ignore', text));
    const groups = Object.values(config_groups).map(({ targets, format: own, ...fields }) => ({
      takes: targets.filter((text) => text !== ALL).map((text) => rule(path, 'targets', text)),
      takesAll: targets.includes(ALL),
      find: finderOf({ ...fields, format: own ?? format }),
    }));
    return (checkpoint, projection) => {
      const matches = (rules: readonly ((name: string) => boolean)[]) =>
        rules.some((matches) => matches(projection.name));
      if (matches(ignored)) return null;
      // A group for all is for those that no other group names, wherever it is in the file.
      const group = groups.find(({ takes }) => matches(takes)) ?? groups.find(({ takesAll }) => takesAll);
      return group?.find(checkpoint, projection) ?? null;
    };
  },
};

/** Stands for every projection. */
const ALL = 'Linear';

/** A name, or after `re:` an expression for the beginning of one. */
function rule(path: string, field: string, text: string): (name: string) => boolean {
  if (!text.startsWith('re:')) return (name) => name === text;
  if (mayTakeForever(text)) {
    throw new ModelLoadError(
      `${path}: "${field}" of quantization_config has ${preview(text)}, which may take forever to match: expected at most ` +
        `${MOST_REPEATS} of * + { in it, none of them behind a group with |, ? or another of them`,
    );
  }
  try {
    const pattern = new RegExp(`^(?:${text.slice(3)})`);
    return (name) => pattern.test(name);
  } catch (error) {
    throw new ModelLoadError(
      `${path}: "${field}" of quantization_config has ${text}, which is no regular expression`,
      { cause: error },
    );
  }
}

/** Names have up to a hundred characters: so many repetitions of a part are tried in a second. */
const MOST_REPEATS = 5;

/** Whether an expression tries many ways to match: their number grows with a power of the length for each repetition. */
function mayTakeForever(expression: string): boolean {
  const plain = expression
    .replace(/\\./g, 'x')
    .replace(/\[[^\]]*\]/g, 'x')
    .replace(/\(\?/g, '(');
  const numRepeats = plain.match(/[*+{]/g)?.length ?? 0;
  const repeatsGroup = /\)[*+{]/.test(plain);
  return numRepeats > MOST_REPEATS || (repeatsGroup && (numRepeats > 1 || /[|?]/.test(plain)));
}

function finderOf(fields: object): FindWeight {
  const found = scheme.parse(fields);
  switch (found.format) {
    case 'pack-quantized':
    case 'mxfp4-pack-quantized':
      return (checkpoint, projection) =>
        checkpoint.has(`${projection.name}.weight_packed`)
          ? packedWeight(checkpoint, projection, found)
          : null;
    case 'float-quantized':
      return (checkpoint, projection) =>
        checkpoint.dtypeOf(`${projection.name}.weight`) === 'f8'
          ? float8Source(checkpoint, projection, found)
          : null;
    case 'int-quantized':
      return (checkpoint, projection) => {
        // A head that is tied to the embeddings is in floats though no rule says so.
        if (checkpoint.dtypeOf(`${projection.name}.weight`) !== 'i8') return null;
        return found.input_activations
          ? w8a8Weight(checkpoint, projection)
          : int8Weight(checkpoint, projection, found);
      };
  }
}

function w8a8Weight(checkpoint: Checkpoint, { name, n, k }: QuantizedProjection): LinearWeightSource {
  const tensor = checkpoint.findAs(`${name}.weight`, [n, k], ['i8']);
  return { kind: 'int8', tensor, scales: checkpoint.find(`${name}.weight_scale`, [n, 1]) };
}

type Weights = Pick<Scheme['weights'], 'strategy' | 'symmetric' | 'group_size'>;

function int8Weight(
  checkpoint: Checkpoint,
  projection: QuantizedProjection,
  { weights: { strategy, symmetric, group_size } }: { readonly weights: Weights },
): CodesWeightSource {
  const { name, n, k } = projection;
  const groupSize = groupSizeFor(strategy === 'group' ? (group_size ?? null) : null, projection);
  const groups = groupSize === null ? 1 : k / groupSize;
  const zeros = symmetric ? null : checkpoint.findAs(`${name}.weight_zero_point`, [n, groups], ['i8']);
  return {
    kind: 'codes',
    format: { kind: 'int8', groupSize, hasZeros: !symmetric },
    shape: [n, k],
    tensor: checkpoint.findAs(`${name}.weight`, [n, k], ['i8']),
    order: 'rows',
    scales: scalesOf(checkpoint, projection, strategy, groups),
    zeros: zeros && { order: 'plain', tensor: zeros, less: 0 },
    inputGroups: null,
  };
}

function packedWeight(
  checkpoint: Checkpoint,
  projection: QuantizedProjection,
  { weights: { num_bits, type, strategy, symmetric, group_size } }: z.output<typeof packed | typeof mxfp4>,
): CodesWeightSource {
  const { name, n, k } = projection;
  const groupSize = groupSizeFor(strategy === 'group' ? (group_size ?? null) : null, projection);
  const groups = groupSize === null ? 1 : k / groupSize;
  const perWord = 32 / num_bits;
  // The shape is in config.json.
  checkpoint.leaveUnread(`${name}.weight_shape`);
  const common = { kind: 'codes', shape: [n, k], order: 'rows' } as const;
  if (type === 'float') {
    const scales = checkpoint.findAs(`${name}.weight_scale`, [n, groups], ['u8']);
    return {
      ...common,
      format: { kind: 'fp4', groupSize, hasZeros: false },
      tensor: checkpoint.findAs(`${name}.weight_packed`, [n, k / 2], ['u8']),
      scales: { tensor: scales, isTransposed: false, outputs: 1 },
      zeros: null,
      inputGroups: null,
    };
  }
  const zeros = symmetric
    ? null
    : checkpoint.findAs(`${name}.weight_zero_point`, [Math.ceil(n / perWord), groups], ['i32']);
  const inputGroups = `${name}.weight_g_idx`;
  return {
    ...common,
    format: { kind: num_bits === 4 ? 'int4' : 'int8', groupSize, hasZeros: !symmetric },
    tensor: checkpoint.findAs(`${name}.weight_packed`, [n, Math.ceil(k / perWord)], ['i32']),
    scales: scalesOf(checkpoint, projection, strategy, groups),
    zeros: zeros && { order: 'outputs', tensor: zeros, less: 0 },
    inputGroups: checkpoint.has(inputGroups) ? checkpoint.findAs(inputGroups, [k], ['i32']) : null,
  };
}

function float8Source(
  checkpoint: Checkpoint,
  projection: QuantizedProjection,
  { weights: { strategy } }: z.output<typeof float8>,
): CodesWeightSource {
  const isBlock = strategy === 'block';
  const scales = isBlock
    ? blockScales(checkpoint, `${projection.name}.weight_scale`, projection)
    : scalesOf(checkpoint, projection, strategy, 1);
  return float8Weight(checkpoint, projection, isBlock, scales);
}

/** [n, groups], or one number for the whole tensor. */
function scalesOf(
  checkpoint: Checkpoint,
  { name, n }: QuantizedProjection,
  strategy: string,
  groups: number,
): CodesWeightSource['scales'] {
  const scales = `${name}.weight_scale`;
  if (strategy === 'tensor')
    return { tensor: checkpoint.findNumber(scales), isTransposed: false, outputs: n };
  return { tensor: checkpoint.find(scales, [n, groups]), isTransposed: false, outputs: 1 };
}
