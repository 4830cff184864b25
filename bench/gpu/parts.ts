// The parts of the GPU check, in their order: what decides whether the rest means anything comes first.

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
  kernels: part('The compiled kernels load (E2)', 70, 'kernels.ts'),
  experiments: part('Instructions, launches, CUDA IPC, ceilings (E1, E3, E4, E6)', 50, 'experiments.ts'),
  ops: part('The tests of ops and of models, on this driver', 120, 'ops.ts'),
  rows: part('Kernels of rows against the emulation, byte for byte', 40, 'rows.ts'),
  transfers: part(
    'Blocks of KV memory from process to process on one GPU, over each transport',
    60,
    'transfers.ts',
  ),
  invariance: part('A row has the same bytes beside any others', 180, 'invariance.ts', ['most-rows']),
  ranks: part('Ranks and stages have the bytes of one GPU', 130, 'ranks.ts'),
  sanitizer: part('compute-sanitizer', 150, 'sanitizer.ts'),
  torch: part('What PyTorch reaches; NCCL with two ranks on one GPU (E5, E6)', 100, 'torch.ts'),
  products: part('Speed of products and attention', 60, 'products.ts'),
  models: part('Tokens a second', 80, 'models.ts', ['model']),
  profile: part('The time of each kernel of a step, and of steps as they are served', 50, 'profile.ts'),
} as const satisfies Record<string, Part>;

export type PartName = keyof typeof PARTS;

export const PART_NAMES = Object.keys(PARTS).filter((name): name is PartName => name in PARTS);

/** All parts, in commands that end within ten minutes each. */
export const CALLS: readonly (readonly PartName[])[] = [
  ['machine', 'kernels', 'experiments', 'ops', 'rows', 'transfers', 'invariance'],
  ['ranks', 'sanitizer', 'torch', 'products', 'models', 'profile'],
];
