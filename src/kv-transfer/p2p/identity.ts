// Who this instance is to its peers, and whether a peer can exchange blocks with it.

import type { KvCompatibility } from '../connector.ts';
import { type MessageOf, PROTOCOL } from './messages.ts';

/** What listens for blocks; null where nothing does. */
export interface Endpoints {
  readonly shm: string | null;
  readonly tcp: string | null;
}

export type Identity = Omit<MessageOf<'hello'>, 'type' | 'seq'>;

/** Fields of hello that must be equal, and what a person calls them. */
const EQUAL_FIELDS = {
  protocol: 'protocol',
  model: 'model',
  kernels: 'instruction set',
  dtype: 'dtype',
  block_size: 'block size',
  layers: 'number of layers',
  piece_bytes: 'bytes of a block and layer',
  rank: 'tensor-parallel rank',
} as const satisfies Partial<Record<keyof Identity, string>>;

export function identityOf(
  compatibility: KvCompatibility,
  rest: Pick<Identity, 'epoch' | 'address' | 'endpoints'>,
): Identity {
  const { model, kernels, dtype, blockSize, layers, layerBlockBytes } = compatibility;
  const shape = { block_size: blockSize, layers, piece_bytes: layerBlockBytes };
  return { protocol: PROTOCOL, model, kernels, dtype, ...shape, rank: 0, ...rest };
}

/** What differs, in words; null where blocks of the one can be used by the other. */
export function difference(own: Identity, other: Identity): string | null {
  for (const field of Object.keys(EQUAL_FIELDS) as (keyof typeof EQUAL_FIELDS)[]) {
    if (own[field] !== other[field]) {
      const words = EQUAL_FIELDS[field];
      return `the ${words} differs: ${own[field]} at ${own.address}, ${other[field]} at ${other.address}`;
    }
  }
  return null;
}
