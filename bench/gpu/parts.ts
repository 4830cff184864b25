// The parts of the GPU check, in their order: what decides whether the rest means anything comes first, then what is wanted most, and last what may hang.

import { fileURLToPath } from 'node:url';

export interface Part {
  readonly title: string;
  /** After so many seconds it is stopped; what it has found by then counts. */
  readonly seconds: number;
  /** A program of this folder; it writes results. */
  readonly program: string;
  /** Options of the command that are passed on to it. */
  readonly options: readonly ('most-rows' | 'model')[];
}

function part(title: string, seconds: number, program: string, options: Part['options'] = []): Part {
  return { title, seconds, program: fileURLToPath(new URL(program, import.meta.url)), options };
}

export const PARTS = {
  machine: part('What this machine has (E0)', 30, 'machine.ts'),
  ops: part('The tests of ops and of models, on this driver', 120, 'ops.ts'),
  products: part('Speed of products, attention and layers with states', 80, 'products.ts'),
  models: part('Tokens a second', 80, 'models.ts', ['model']),
  profile: part('The time of each kernel of a step, and of steps as they are served', 80, 'profile.ts'),
  ranks: part('Ranks and stages have the bytes of one GPU', 160, 'ranks.ts'),
  rows: part('Each op against the emulation: rows byte for byte, others but for rounding', 40, 'rows.ts'),
  transfers: part(
    'Blocks of KV memory from process to process on one GPU, over each transport',
    50,
    'transfers.ts',
  ),
  experiments: part('Instructions, launches, CUDA IPC, ceilings (E1, E3, E4, E6)', 50, 'experiments.ts'),
  kernels: part('The compiled kernels load (E2)', 60, 'kernels.ts'),
  torch: part('What PyTorch reaches; NCCL with two ranks on one GPU (E5, E6)', 80, 'torch.ts'),
  invariance: part('A row has the same bytes beside any others', 140, 'invariance.ts', ['most-rows']),
  sanitizer: part('compute-sanitizer', 150, 'sanitizer.ts'),
} as const satisfies Record<string, Part>;

export type PartName = keyof typeof PARTS;

export const PART_NAMES = Object.keys(PARTS).filter(isPartName);

export function isPartName(name: string): name is PartName {
  return Object.hasOwn(PARTS, name);
}

/** All parts, in commands that end within ten minutes each. */
export const CALLS: readonly (readonly PartName[])[] = [
  ['machine', 'ops', 'products', 'models', 'profile', 'ranks'],
  ['rows', 'transfers', 'experiments', 'kernels', 'torch', 'invariance', 'sanitizer'],
];
