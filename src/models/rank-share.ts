// What one of the ranks that share a model holds of it: whole heads, some columns of each product, some rows of the vocabulary, some experts.
//
// All products of a rank have the whole input and make their own columns of the output, so that a number has the same bits however many
// ranks there are. A row-parallel product takes what the ranks have made before it side by side, and so does the residual stream after it.

import { ConfigError } from '../errors.ts';
import { firstOfExpertGroup, NUM_EXPERT_GROUPS } from '../ops/experts.ts';
import { ALONE, type RankPlace } from '../ops/ranks.ts';
import type { ModelConfig } from './model-config.ts';

/** Indices of something that ranks share, the ranks' one after the other. */
export interface Share {
  readonly first: number;
  readonly count: number;
}

/** Where something cannot be shared evenly, ranks share whole panels of the kernels, or parts of them. */
const UNITS = [16, 8, 4, 2, 1];

export class RankShare {
  readonly place: RankPlace;

  constructor(place: RankPlace) {
    this.place = place;
  }

  get isAlone(): boolean {
    return this.place.size === 1;
  }

  /** Of `n` columns or rows, how many each rank has: as many as the others where that is possible. */
  widths(n: number): number[] {
    const { size } = this.place;
    const unit = n % size === 0 ? n / size : UNITS.find((one) => n / one >= size)!;
    const units = Math.ceil(n / unit);
    const begin = (rank: number): number => Math.min(n, Math.floor((units * rank) / size) * unit);
    return Array.from({ length: size }, (_, rank) => begin(rank + 1) - begin(rank));
  }

  /** Those of this rank. */
  of(n: number): Share {
    const widths = this.widths(n);
    const before = widths.slice(0, this.place.rank);
    return { first: before.reduce((sum, width) => sum + width, 0), count: widths[this.place.rank]! };
  }

  /** The experts of whole groups of their sum. */
  experts(count: number): Share {
    const { rank, size } = this.place;
    const begin = (of: number): number => firstOfExpertGroup(count, (NUM_EXPERT_GROUPS * of) / size);
    return { first: begin(rank), count: begin(rank + 1) - begin(rank) };
  }

  /** @throws ConfigError saying which degrees the model can be shared by. */
  expectPossible(config: ModelConfig): void {
    const { size } = this.place;
    if (this.isAlone) return;
    const degrees = [1, 2, 4, 8].filter((degree) => obstacleTo(config, degree) === null);
    const obstacle = obstacleTo(config, size);
    if (obstacle === null) return;
    throw refusal(
      size,
      `${obstacle}: use ${new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(degrees.map(String))}`,
    );
  }
}

/** Of a model that is not shared. */
export const WHOLE = new RankShare(ALONE);

function refusal(size: number, why: string): ConfigError {
  return new ConfigError(`--tensor-parallel-size ${size} ${why}`, { param: 'tensor-parallel-size' });
}

/** Why a model cannot be shared by so many ranks; null where it can. */
function obstacleTo(
  {
    numHeads,
    numKvHeads,
    layerHeads,
    latent,
    recurrent,
    experts,
    hiddenSize,
    intermediateSize,
    layerWidths,
    vocabSize,
  }: ModelConfig,
  size: number,
): string | null {
  if (numHeads % size !== 0) return `does not divide the model's ${numHeads} attention heads`;
  // The keys of latent attention are of all heads.
  const kvHeads = latent === null ? [numKvHeads, ...(layerHeads ?? []).map((heads) => heads.kvHeads)] : [];
  const undivided = kvHeads.find((count) => count % size !== 0);
  if (undivided !== undefined) return `does not divide the model's ${undivided} heads of keys and values`;
  const { delta, scan } = recurrent ?? {};
  if (scan && scan.heads % size !== 0) return `does not divide the ${scan.heads} heads of the model's scans`;
  // A rank's heads are those of whole groups, or of one.
  if (scan && scan.groups > 1 && scan.groups % size !== 0)
    return `does not divide the ${scan.groups} groups of heads of the model's scans`;
  // A rank's heads of values would need the keys of other ranks.
  if (delta?.isTiled && size > 1)
    return "cannot share the heads of linear attention in the order of a GGUF file, but can those of the original's folder";
  // Each of them goes with as many heads of values.
  if (delta && delta.keyHeads % size !== 0)
    return `does not divide the ${delta.keyHeads} heads of keys of the model's linear attention`;
  if (experts !== null && experts.count < size) return `is more than the model's ${experts.count} experts`;
  const least = Math.min(hiddenSize, intermediateSize, ...(layerWidths ?? []), vocabSize);
  return least < size ? `is more than the ${least} numbers that ranks would share` : null;
}
