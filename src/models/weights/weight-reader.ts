// Loads weights by their published names into the backend: the one way from checkpoint to ops for every model.

import type { ComputeDType, WeightFormat } from '../../ops/dtype.ts';
import type { Ops } from '../../ops/ops.ts';
import { type LinearPart, type LinearWeight, plainPart, type Vector } from '../../ops/weights.ts';
import { ColumnParallelLinear, GateUpLinear, RowParallelLinear } from '../layers/linear.ts';
import type { Checkpoint } from '../source/checkpoint.ts';

/** A projection `name.weight` [n, k] and, if `bias`, `name.bias` [n]. */
interface Projection {
  readonly name: string;
  readonly n: number;
  readonly bias?: boolean;
}

/** What a model computes in, and what its products keep their weights in. */
export interface WeightFormats {
  readonly dtype: ComputeDType;
  readonly products: WeightFormat;
}

export class WeightReader {
  readonly dtype: ComputeDType;
  readonly #products: WeightFormat;
  readonly #checkpoint: Checkpoint;
  readonly #ops: Ops;
  #packedBytes = 0;

  constructor(checkpoint: Checkpoint, ops: Ops, { dtype, products }: WeightFormats) {
    this.#checkpoint = checkpoint;
    this.#ops = ops;
    this.dtype = dtype;
    this.#products = products;
  }

  /** Packed bytes of all matrices so far but of embeddings: what one decode step reads. */
  get packedBytes(): number {
    return this.#packedBytes;
  }

  /** Projections of one input, side by side: [sum of n, k]. */
  column(projections: readonly Projection[], k: number): ColumnParallelLinear {
    const parts = projections.map((projection) => this.#part(projection, k));
    return new ColumnParallelLinear(this.#count(this.#ops.loadLinear(parts, this.#products)));
  }

  row(projection: Projection, k: number): RowParallelLinear {
    return new RowParallelLinear(
      this.#count(this.#ops.loadLinear([this.#part(projection, k)], this.#products)),
    );
  }

  gateUp(gate: Projection, up: Projection, k: number): GateUpLinear {
    const parts = [this.#part(gate, k), this.#part(up, k)] as const;
    return new GateUpLinear(this.#count(this.#ops.loadGateUp(...parts, this.#products)));
  }

  vector(name: string, length: number): Vector {
    return this.#ops.loadVector(this.#checkpoint.find(name, [length]));
  }

  /** [vocab, hidden], of which a step reads no more than a row a token. */
  embedding(table: Projection, hidden: number): LinearWeight {
    return this.#ops.loadLinear([this.#part(table, hidden)], this.dtype);
  }

  /** [vocab, hidden], which a step reads whole; it may be the embeddings as well. */
  head(projection: Projection, hidden: number): LinearWeight {
    return this.#count(this.#ops.loadLinear([this.#part(projection, hidden)], this.#products));
  }

  #part({ name, n, bias }: Projection, k: number): LinearPart {
    const weight = this.#checkpoint.find(`${name}.weight`, [n, k]);
    return plainPart(weight, bias ? this.#checkpoint.find(`${name}.bias`, [n]) : null);
  }

  #count<T extends { readonly byteLength: number }>(weight: T): T {
    this.#packedBytes += weight.byteLength;
    return weight;
  }
}
