// Low-rank adaptation of products: an adapter adds B · (scale · (A · x)) to a product of x, for the rows that it computes.
// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.

import type { ComputeDType } from './dtype.ts';

/**
 * What an adapter adds to a product, or to gate and up: B · t of t = scales * (A · x), rounded to `dtype`. All modules of the product
 * share t, each has ranks of its own.
 */
export interface LoraNumbers {
  /** Of A, B and t: the input format of the product's weight. */
  readonly dtype: ComputeDType;
  readonly k: number;
  /** Columns of the product; of gate and up, of each. */
  readonly n: number;
  readonly isGateUp: boolean;
  /** Of t. */
  readonly rank: number;
  /** [rank, k] */
  readonly a: Float32Array;
  /** [rank] */
  readonly scales: Float32Array;
  /** In the order of their columns, of which no two have one in common. */
  readonly parts: readonly LoraPart[];
  /** Of each part [columns, ranks], one after the other. */
  readonly b: Float32Array;
}

/** What some of the ranks add to some of the columns. */
export interface LoraPart {
  /** Those of up come after all of gate. */
  readonly firstColumn: number;
  readonly columns: number;
  readonly firstRank: number;
  readonly ranks: number;
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
