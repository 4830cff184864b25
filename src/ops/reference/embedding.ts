// Token embeddings of the reference backend, kept in the format in which they were published.

import { ShapeError } from '../../errors.ts';
import type { EmbeddingTable, TensorSource } from '../ops.ts';
import { HostTensor } from './host-tensor.ts';
import { readStored, type StoredNumbers, widen } from './read-weight.ts';

export class HostEmbedding implements EmbeddingTable {
  readonly vocab: number;
  readonly hidden: number;
  private readonly stored: StoredNumbers;

  constructor(weight: TensorSource) {
    const [vocab, hidden] = weight.shape;
    if (weight.shape.length !== 2 || vocab === undefined || hidden === undefined) {
      const got = `[${weight.shape.join(', ')}]`;
      throw new ShapeError('loadEmbedding', `${weight.name} [vocab, hidden]`, got);
    }
    this.vocab = vocab;
    this.hidden = hidden;
    this.stored = readStored(weight);
  }

  row(id: number): Float32Array {
    const { dtype, data } = this.stored;
    return widen(dtype, data.subarray(id * this.hidden, (id + 1) * this.hidden));
  }
}

/** ids [tokens] -> f32 [tokens, hidden]. */
export function embedding(ids: Int32Array, table: EmbeddingTable): HostTensor {
  if (!(table instanceof HostEmbedding))
    throw new ShapeError('embedding', 'a table of this backend', 'another');
  const out = HostTensor.zeros(ids.length, table.hidden, 'f32');
  for (const [row, id] of ids.entries()) {
    if (id < 0 || id >= table.vocab)
      throw new ShapeError('embedding', `ids from 0 to ${table.vocab - 1}`, `${id} in row ${row}`);
    out.data.set(table.row(id), row * table.hidden);
  }
  return out;
}
