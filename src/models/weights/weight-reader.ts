// Loads weights by their published names into the backend: the one way from checkpoint to ops for every model.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { GateUpWeight, LinearPart, LinearWeight, Ops, Vector } from '../../ops/ops.ts';
import type { Checkpoint } from './checkpoint.ts';

/** A projection `name.weight` [n, k] and, if `bias`, `name.bias` [n]. */
export interface Projection {
  readonly name: string;
  readonly n: number;
  readonly bias?: boolean;
}

export class WeightReader {
  readonly dtype: ComputeDType;
  private readonly checkpoint: Checkpoint;
  private readonly ops: Ops;
  private bytes = 0;

  constructor(checkpoint: Checkpoint, ops: Ops, dtype: ComputeDType) {
    this.checkpoint = checkpoint;
    this.ops = ops;
    this.dtype = dtype;
  }

  /** Packed bytes of all matrices so far but of embeddings: what one decode step reads. */
  get packedBytes(): number {
    return this.bytes;
  }

  /** Projections of one input, side by side: [sum of n, k]. */
  linear(projections: readonly Projection[], k: number): LinearWeight {
    return this.count(
      this.ops.loadLinear(
        projections.map((projection) => this.part(projection, k)),
        this.dtype,
      ),
    );
  }

  gateUp(gate: Projection, up: Projection, k: number): GateUpWeight {
    return this.count(this.ops.loadGateUp(this.part(gate, k), this.part(up, k), this.dtype));
  }

  vector(name: string, length: number): Vector {
    return this.ops.loadVector(this.checkpoint.find(name, [length]));
  }

  /** [vocab, hidden], of which a step reads no more than a row a token. */
  embedding(table: Projection, hidden: number): LinearWeight {
    return this.ops.loadLinear([this.part(table, hidden)], this.dtype);
  }

  private part({ name, n, bias }: Projection, k: number): LinearPart {
    return {
      weight: this.checkpoint.find(`${name}.weight`, [n, k]),
      bias: bias ? this.checkpoint.find(`${name}.bias`, [n]) : null,
    };
  }

  private count<T extends { readonly byteLength: number }>(weight: T): T {
    this.bytes += weight.byteLength;
    return weight;
  }
}
