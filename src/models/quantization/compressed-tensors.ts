// The format of compressed-tensors: groups of projections, each with a scheme of its own.
// Source: github.com/neuralmagic/compressed-tensors (quantization_config, and the tensors beside `name.weight_scale`).

import * as z from 'zod';
import type { CodesWeightSource, LinearWeightSource } from '../../ops/weights.ts';
import { firstMatches } from '../../util/foreign-patterns.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import { leaveCacheScalesUnread } from './cache-scales.ts';
import { blockScales, float8Weight } from './float8-weight.ts';
import { groupSizeFor } from './group-size.ts';
import type { FindWeight, QuantizationMethod, QuantizedProjection } from './method.ts';
import { nvfp4Weight } from './nvfp4.ts';

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
const float4 = weights.extend({ num_bits: z.literal(4), type: z.literal('float') });
const mxfp4 = z.object({
  format: z.literal('mxfp4-pack-quantized'),
  weights: float4.extend({ strategy: z.literal('group'), group_size: z.literal(32) }),
  input_activations: anyInputs,
});
const nvfp4 = z.object({
  format: z.literal('nvfp4-pack-quantized'),
  weights: float4.extend({ strategy: z.enum(['group', 'tensor_group']), group_size: z.literal(16) }),
  input_activations: anyInputs,
});

const scheme = z.union([w8a8, w8a16, packed, float8, mxfp4, nvfp4]);
type Scheme = z.output<typeof scheme>;

const FORMATS =
  'int-quantized, pack-quantized, float-quantized, mxfp4-pack-quantized or nvfp4-pack-quantized';

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
    case 'nvfp4-pack-quantized':
      return nvfp4;
    default:
      return null;
  }
}

const group = z.looseObject({ targets: z.array(z.string()).min(1), format: z.string().nullish() });
const schema = z.object({
  format: z.string(),
  config_groups: z.record(z.string(), group),
  ignore: z.array(z.string()).nullish(),
});
type Config = z.output<typeof schema>;

export const compressedTensors: QuantizationMethod<Config> = {
  schema: schema.superRefine((config, context) => {
    for (const [name, { format: own, ...fields }] of Object.entries(config.config_groups)) {
      const format = own ?? config.format;
      const served = schemaOf({ ...fields, format });
      if (served === null) {
        const message = `must be ${FORMATS}, it is ${format}`;
        context.addIssue({ code: 'custom', path: ['format'], message });
      }
      for (const { path, message } of served?.safeParse({ ...fields, format }).error?.issues ?? []) {
        context.addIssue({ code: 'custom', path: ['config_groups', name, ...path], message });
      }
    }
  }),
  served: 'W8A8 with one scale a channel and token, W8A16, W4A16, FP8, MXFP4 and NVFP4',
  finder({ format, config_groups, ignore }, path) {
    const groups = Object.values(config_groups).map(({ targets, format: own, ...fields }) => ({
      targets: targets.filter((text) => text !== ALL),
      takesAll: targets.includes(ALL),
      find: finderOf({ ...fields, format: own ?? format }),
    }));
    const listOf = listFinder([ignore ?? [], ...groups.map(({ targets }) => targets)], path);
    return (checkpoint, projection) => {
      leaveCacheScalesUnread(checkpoint, projection.name);
      const list = listOf(checkpoint, projection.name);
      if (list === IGNORED) return null;
      // A group for all is for those that no other group names, wherever it is in the file.
      const group = list > IGNORED ? groups[list - 1] : groups.find(({ takesAll }) => takesAll);
      return group?.find(checkpoint, projection) ?? null;
    };
  },
};

/** Stands for every projection. */
const ALL = 'Linear';
/** The list of what is not quantised; those of the groups come after it. */
const IGNORED = 0;
/** What begins an expression for the beginning of a name; all else is a name. */
const EXPRESSION = 're:';

/**
 * Finds the first of the lists that has a module; -1 is none.
 * @throws ModelLoadError where an expression is none, or takes too long.
 */
function listFinder(
  lists: readonly (readonly string[])[],
  path: string,
): (checkpoint: Checkpoint, module: string) => number {
  const rules = lists.flatMap((texts, list) => texts.map((text) => ({ text, list })));
  const expressions = rules.filter(({ text }) => text.startsWith(EXPRESSION));
  const named = new Map(rules.toReversed().map(({ text, list }) => [text, list]));
  const patterns = expressions.map(({ text }) => `^(?:${text.slice(EXPRESSION.length)})`);
  const where = `${path}: an expression in "ignore" or "targets" of quantization_config`;
  let matched: ReadonlyMap<string, number> | null = null;
  return (checkpoint, module) => {
    matched ??= matchModules(checkpoint, patterns, where);
    const found = [named.get(module), expressions[matched.get(module) ?? -1]?.list];
    const first = Math.min(...found.filter((list) => list !== undefined));
    return Number.isFinite(first) ? first : -1;
  };
}

/** The first pattern that matches each module of the checkpoint: all at once, since each match needs a watch of its time. */
function matchModules(
  checkpoint: Checkpoint,
  patterns: readonly string[],
  where: string,
): ReadonlyMap<string, number> {
  const modules = [...new Set(checkpoint.names.map((name) => name.slice(0, name.lastIndexOf('.'))))];
  const matches = firstMatches(modules, patterns, where);
  return new Map(modules.map((module, i) => [module, matches[i]!]));
}

function finderOf(fields: object): FindWeight {
  const found = scheme.parse(fields);
  switch (found.format) {
    case 'pack-quantized':
    case 'mxfp4-pack-quantized':
      return ifPacked((checkpoint, projection) => packedWeight(checkpoint, projection, found));
    case 'nvfp4-pack-quantized':
      return ifPacked((checkpoint, projection) => {
        const tensor = checkpoint.findNumber(`${projection.name}.weight_global_scale`);
        const ofAll = { tensor, divides: true };
        return nvfp4Weight(checkpoint, projection, `${projection.name}.weight_packed`, ofAll);
      });
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

function ifPacked(find: FindWeight): FindWeight {
  return (checkpoint, projection) =>
    checkpoint.has(`${projection.name}.weight_packed`) ? find(checkpoint, projection) : null;
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
  const groupSize = groupSizeFor(checkpoint, strategy === 'group' ? (group_size ?? null) : null, projection);
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
  const groupSize = groupSizeFor(checkpoint, strategy === 'group' ? (group_size ?? null) : null, projection);
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
