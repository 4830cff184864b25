// The experts of a layer where they are published in one tensor. GPT-OSS has them with biases, gate and up taking turns output by output; in
// floats input by input, in MXFP4 output by output. In others, as transformers 5 keeps them, the rows of gate are before those of up.

import {
  type CodesWeightSource,
  type LinearPart,
  narrow,
  narrowOutputs,
  reshape,
  storedPart,
  type TensorSource,
} from '../../ops/weights.ts';
import { mxfp4Expert, type StackedProjections } from '../quantization/mxfp4.ts';
import type { Checkpoint } from '../source/checkpoint.ts';

export interface StackedShape {
  readonly count: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
}

export interface ExpertParts {
  /** Null: there is no gate. */
  readonly gate: LinearPart | null;
  readonly up: LinearPart;
  readonly down: LinearPart;
}

/**
 * Expert `expert` of `prefix.gate_up_proj` and `prefix.down_proj`.
 * @throws ModelLoadError where a tensor is missing or has another shape.
 */
export function stackedExpert(
  checkpoint: Checkpoint,
  prefix: string,
  { count, hiddenSize, intermediateSize }: StackedShape,
  expert: number,
): ExpertParts {
  const [gateUp, down] = [`${prefix}.gate_up_proj`, `${prefix}.down_proj`];
  const part = (stack: StackedProjections, which = 0) => partOf(checkpoint, stack, expert, which);
  const both = { name: gateUp, count, n: intermediateSize, k: hiddenSize, interleaved: 2 } as const;
  return {
    gate: part(both, 0),
    up: part(both, 1),
    down: part({ name: down, count, n: hiddenSize, k: intermediateSize, interleaved: 1 }),
  };
}

/** Tensors of all experts of a layer; some publish each expert's matrices transposed. */
export interface FusedNames {
  /** [experts, gate rows + up rows, hidden] */
  readonly gateUp: string;
  /** [experts, hidden, inner] */
  readonly down: string;
}

/**
 * Expert `expert` of them.
 * @throws ModelLoadError where a tensor is missing or has another shape.
 */
export function fusedExpert(
  checkpoint: Checkpoint,
  names: FusedNames,
  shape: StackedShape,
  expert: number,
): ExpertParts {
  const { hiddenSize, intermediateSize } = shape;
  const both = fusedMatrix(checkpoint, names.gateUp, shape.count, [2 * intermediateSize, hiddenSize], expert);
  const down = fusedMatrix(checkpoint, names.down, shape.count, [hiddenSize, intermediateSize], expert);
  return {
    gate: both(0, intermediateSize),
    up: both(intermediateSize, intermediateSize),
    down: down(0, hiddenSize),
  };
}

/** Rows of the matrix [n, k] of one expert, which is published as [n, k] or as [k, n]. */
function fusedMatrix(
  checkpoint: Checkpoint,
  name: string,
  count: number,
  [n, k]: readonly [number, number],
  expert: number,
): (first: number, rows: number) => LinearPart {
  if (checkpoint.dtypeOf(name) === 'f8') {
    const matrix = float8Matrix(checkpoint, name, count, [n, k], expert);
    return (first, rows) => ({ weight: narrowOutputs(matrix, first, rows)!, bias: null });
  }
  const isTransposed = n !== k && checkpoint.shapeOf(name)?.[1] === k;
  const [height, width] = isTransposed ? [k, n] : [n, k];
  const stack = reshape(checkpoint.find(name, [count, height, width]), [count * height, width]);
  const matrix = narrow(stack, 0, expert * height, height);
  if (!isTransposed) return (first, rows) => storedPart(narrow(matrix, 0, first, rows));
  return (first, rows) => ({
    weight: { kind: 'transposed', shape: [rows, k], tensor: narrow(matrix, 1, first, rows) },
    bias: null,
  });
}

/**
 * In 8-bit floats (e4m3), with one scale for each expert, or one for its gate and one for its up, as Mistral Small 4 is published. Inputs
 * stay in bfloat16.
 */
function float8Matrix(
  checkpoint: Checkpoint,
  name: string,
  count: number,
  [n, k]: readonly [number, number],
  expert: number,
): CodesWeightSource {
  checkpoint.leaveUnread(`${name}_activation_scale`);
  const codes = reshape(checkpoint.findAs(name, [count, n, k], ['f8']), [count * n, k]);
  const parts = n % 2 === 0 && checkpoint.shapeOf(`${name}_scale_inv`)?.[1] === 2 ? 2 : 1;
  const scales = reshape(checkpoint.find(`${name}_scale_inv`, [count, parts, 1]), [count * parts, 1]);
  return {
    kind: 'codes',
    format: { kind: 'fp8', groupSize: null, hasZeros: false },
    shape: [n, k],
    tensor: narrow(codes, 0, expert * n, n),
    order: 'rows',
    scales: {
      tensor: narrow(scales, 0, expert * parts, parts),
      isTransposed: false,
      outputs: n / parts,
    },
    zeros: null,
    inputGroups: null,
  };
}

function partOf(
  checkpoint: Checkpoint,
  stack: StackedProjections,
  expert: number,
  which: number,
): LinearPart {
  const { name, count, n, k, interleaved } = stack;
  const biases = checkpoint.find(`${name}_bias`, [count, n * interleaved]);
  const bias = everyNth(biases, interleaved, which, expert * n, n);
  if (checkpoint.has(`${name}_blocks`)) {
    return { weight: mxfp4Expert(checkpoint, stack, expert, which), bias };
  }
  const stored = checkpoint.find(name, [count, k, n * interleaved]);
  const tensor = everyNth(stored, interleaved, which, expert * k * n, k * n);
  return { weight: { kind: 'transposed', shape: [n, k], tensor }, bias };
}

/** `length` numbers of those with index `which` modulo `n`, as a column; before them are `start` such numbers. */
function everyNth(
  source: TensorSource,
  n: number,
  which: number,
  start: number,
  length: number,
): TensorSource {
  const numbers = source.shape.reduce((product, size) => product * size, 1);
  return narrow(narrow(reshape(source, [numbers / n, n]), 0, start, length), 1, which, 1);
}
