// What is behind the layers of a model that keep a state of each sequence in the place of keys and values, or beside them.

export interface RecurrentConfig {
  /** [numLayers] whether a layer keeps a state. */
  readonly layers: readonly boolean[];
  /** Whether such a layer has keys and values as well. */
  readonly isBesideAttention?: boolean;
  /** Tokens that the convolution of such a layer sees, the newest among them. */
  readonly taps: number;
  /** Whether the convolution has a bias. */
  readonly hasBias: boolean;
  /** What is behind the convolution: one of them, or nothing, where it is as wide as the model. */
  readonly delta?: DeltaConfig;
  readonly scan?: ScanConfig;
}

/** Heads of a selective scan, each with a state [stateDim, headDim], and the groups of them that are written and read alike. */
export interface ScanConfig {
  readonly groups: number;
  readonly stateDim: number;
  readonly heads: number;
  readonly headDim: number;
  /** Groups of what is read, each of which is normalised by itself; null: it passes the gate alone. */
  readonly normGroups: number | null;
  /** On what a token brings; left out, there are none. */
  readonly factors?: ScanFactors;
  /** Whether the products around it have biases. */
  readonly hasProjectionBias: boolean;
}

/** Of gates, x, b, c and steps. */
export type ScanFactors = readonly [number, number, number, number, number];

/** Heads of a delta rule: those of queries and keys, and of values, of which each has a state [keyDim, valueDim]. */
export interface DeltaConfig {
  readonly keyHeads: number;
  readonly keyDim: number;
  readonly heads: number;
  readonly valueDim: number;
  /** Whether heads of keys take turns, as converters order them; else heads of values that share one are neighbours. */
  readonly isTiled: boolean;
}
