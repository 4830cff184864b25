// Loads weights by their published names into the backend: the one way from checkpoint to ops for every model.

import { ModelLoadError } from '../../errors.ts';
import type { ComputeDType, WeightFormat } from '../../ops/dtype.ts';
import type { Ops } from '../../ops/ops.ts';
import {
  type LinearPart,
  type LinearWeight,
  plainPart,
  type TensorSource,
  type Vector,
} from '../../ops/weights.ts';
import { ColumnParallelLinear, GateUpLinear, RowParallelLinear } from '../layers/linear.ts';
import type { PublishedQuantization } from '../quantization/published-quantization.ts';
import type { Checkpoint } from '../source/checkpoint.ts';

/** A projection `name.weight` [n, k] and, if `bias`, `name.bias` [n]. */
interface Projection {
  readonly name: string;
  readonly n: number;
  readonly bias?: boolean;
}

/** What a model computes in, and what its products keep their weights in. */
interface WeightFormats {
  readonly dtype: ComputeDType;
  readonly products: WeightFormat;
  /** How the checkpoint is quantised; null where it is not. */
  readonly published: PublishedQuantization | null;
}

export class WeightReader {
  readonly dtype: ComputeDType;
  readonly #products: WeightFormat;
  readonly #published: PublishedQuantization | null;
  readonly #checkpoint: Checkpoint;
  readonly #ops: Ops;
  #packedBytes = 0;

  constructor(checkpoint: Checkpoint, ops: Ops, { dtype, products, published }: WeightFormats) {
    this.#checkpoint = checkpoint;
    this.#ops = ops;
    this.dtype = dtype;
    this.#products = products;
    this.#published = published;
  }

  /** That of the layers' products. */
  get format(): WeightFormat {
    return this.#published === null ? this.#products : 'int8';
  }

  /** Packed bytes of all matrices so far but of embeddings: what one decode step reads. */
  get packedBytes(): number {
    return this.#packedBytes;
  }

  /** Projections of one input, side by side: [sum of n, k]. */
  column(projections: readonly Projection[], k: number): ColumnParallelLinear {
    return new ColumnParallelLinear(this.#linear(projections, k));
  }

  row(projection: Projection, k: number): RowParallelLinear {
    return new RowParallelLinear(this.#linear([projection], k));
  }

  gateUp(gate: Projection, up: Projection, k: number): GateUpLinear {
    const parts = [this.#part(gate, k), this.#part(up, k)] as const;
    return new GateUpLinear(this.#count(this.#ops.loadGateUp(...parts, this.#formatOf(parts))));
  }

  vector(name: string, length: number): Vector {
    return this.#ops.loadVector(this.#checkpoint.find(name, [length]));
  }

  /** [vocab, hidden], of which a step reads no more than a row a token. */
  embedding(table: Projection, hidden: number): LinearWeight {
    return this.#ops.loadLinear([this.#plain(table, hidden)], this.dtype);
  }

  /** [vocab, hidden], which a step reads whole; it may be the embeddings as well. */
  head(projection: Projection, hidden: number): LinearWeight {
    return this.#linear([projection], hidden);
  }

  #linear(projections: readonly Projection[], k: number): LinearWeight {
    const parts = projections.map((projection) => this.#part(projection, k));
    return this.#count(this.#ops.loadLinear(parts, this.#formatOf(parts)));
  }

  #part(projection: Projection, k: number): LinearPart {
    const { name, n } = projection;
    // A head that is tied to the embeddings is in floats though no rule says so.
    const isPlain = this.#published?.isIgnored(name) ?? true;
    if (isPlain || !this.#checkpoint.isInt8(`${name}.weight`)) return this.#plain(projection, k);
    const tensor = this.#checkpoint.findInt8(`${name}.weight`, [n, k]);
    const scales = this.#checkpoint.find(`${name}.weight_scale`, [n, 1]);
    return { weight: { kind: 'int8', tensor, scales }, bias: this.#bias(projection) };
  }

  /** @throws ModelLoadError where the weight is no matrix of floats. */
  #plain(projection: Projection, k: number): LinearPart {
    const weight = this.#checkpoint.find(`${projection.name}.weight`, [projection.n, k]);
    return plainPart(weight, this.#bias(projection));
  }

  #bias({ name, n, bias }: Projection): TensorSource | null {
    return bias ? this.#checkpoint.find(`${name}.bias`, [n]) : null;
  }

  /** @throws ModelLoadError where some of the parts are quantised and others are not. */
  #formatOf(parts: readonly LinearPart[]): WeightFormat {
    const quantized = parts.filter(({ weight }) => weight.kind === 'int8');
    if (quantized.length === 0) return this.#products;
    const plain = parts.find(({ weight }) => weight.kind === 'plain');
    if (plain === undefined) return 'int8';
    throw new ModelLoadError(
      `${this.#checkpoint.path}: ${quantized[0]?.weight.tensor.name} is quantised and ${plain.weight.tensor.name} is not, ` +
        'which are multiplied together; mend "ignore" of quantization_config or fetch the model again',
    );
  }

  #count<T extends { readonly byteLength: number }>(weight: T): T {
    this.#packedBytes += weight.byteLength;
    return weight;
  }
}
