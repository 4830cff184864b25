// A product of the model that adapters may add to: of which published modules its columns are, and what the loaded adapters
// add to it.

import type { Lora, LoraNumbers } from '../../ops/lora.ts';
import type { Ops, StepInputs, StepLoras } from '../../ops/ops.ts';

/** Columns of a product: `n` rows of the module's weight [rows, k], from row `first` on. */
export interface TargetPiece {
  /** The name of the module in the checkpoint: `model.layers.0.self_attn.q_proj`. */
  readonly module: string;
  readonly rows: number;
  readonly first: number;
  readonly n: number;
}

export class LoraTarget {
  /** In the order of the columns; of gate and up, one each. */
  readonly pieces: readonly TargetPiece[];
  readonly k: number;
  readonly isGateUp: boolean;
  readonly #ops: Pick<Ops, 'makeLora'>;
  readonly #loras = new Map<number, Lora>();

  /** @param ops that the product is of */
  constructor(ops: Pick<Ops, 'makeLora'>, pieces: readonly TargetPiece[], k: number, isGateUp = false) {
    this.#ops = ops;
    this.pieces = pieces;
    this.k = k;
    this.isGateUp = isGateUp;
  }

  /** Columns of the product; of gate and up, of each. */
  get n(): number {
    const columns = this.pieces.reduce((sum, piece) => sum + piece.n, 0);
    return this.isGateUp ? columns / 2 : columns;
  }

  /** From the next step on, what `adapter` adds. */
  add(adapter: number, numbers: LoraNumbers): void {
    this.#loras.set(adapter, this.#ops.makeLora(numbers));
  }

  /** No step with `adapter` may begin any more. */
  remove(adapter: number): void {
    this.#loras.get(adapter)?.free();
    this.#loras.delete(adapter);
  }

  /** Undefined where the adapters of the step leave the product as it is. */
  inStep(step: StepInputs): StepLoras | undefined {
    if (step.adapters.size === 0) return undefined;
    const loras = [...step.adapters].flatMap((adapter) => {
      const lora = this.#loras.get(adapter);
      return lora === undefined ? [] : [{ adapter, lora }];
    });
    return loras.length === 0 ? undefined : { step, loras };
  }
}
