// Low-rank adaptation of products: an adapter adds B · (scale · (A · x)) to a product of x, for the rows that it computes.
// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.

import type { ComputeDType } from './dtype.ts';

/** What an adapter adds to columns of a product, or to gate and up: y += B · t of t = scales * (A · x), rounded to `dtype`. */
export interface LoraNumbers {
  /** Of A, B and t: the input format of the product's weight. */
  readonly dtype: ComputeDType;
  readonly k: number;
  readonly rank: number;
  /** [rank, k] */
  readonly a: Float32Array;
  /** [rank] */
  readonly scales: Float32Array;
  /** [n, rank]: the columns of the product from `firstColumn` on. Of gate and up: those of gate, then those of up. */
  readonly b: Float32Array;
  readonly firstColumn: number;
  readonly isGateUp: boolean;
}

/** LoraNumbers in a backend. */
export interface Lora {
  readonly byteLength: number;
  /** No op may be called with it any more; those that were have it until they have run. */
  free(): void;
}

export interface AdapterLora {
  /** As `StepArrays.adapters` names it. */
  readonly adapter: number;
  readonly lora: Lora;
}

/** In `StepArrays.adapters`: the model alone. */
export const NO_ADAPTER = -1;

/** The adapters that compute some sequence of a step. */
export function distinctAdapters(adapters: Int32Array | undefined): ReadonlySet<number> {
  return new Set(adapters?.filter((adapter) => adapter !== NO_ADAPTER));
}
