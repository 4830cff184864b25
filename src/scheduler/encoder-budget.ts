// How much of the encoder's work a step does. A tile is seen layer by layer, by as many steps as that takes, before the first of its tokens
// is computed: others get their tokens in between. Only when things are seen depends on it. What an executor has forgotten by the time that
// it needs it, it sees again.

import type { PlacedTile, RequestImages } from './request-images.ts';
import type { EncoderCosts, TileWork } from './scheduled-step.ts';

export class EncoderBudget {
  readonly #costs: EncoderCosts;
  readonly #mostOfStep: number;
  #left: number;
  #work: TileWork[] = [];

  /** @param mostOfStep in tokens of text; a step may take more where a layer alone does */
  constructor(costs: EncoderCosts, mostOfStep: number) {
    this.#costs = costs;
    this.#mostOfStep = mostOfStep;
    this.#left = mostOfStep;
  }

  /** Plans what is to be seen of the tokens from `first` up to before `end`. @returns behind the last one that can be computed then */
  see(images: RequestImages, first: number, end: number): number {
    const { numLayers } = this.#costs;
    while (true) {
      const tile = images.unseenTile(first, numLayers);
      if (tile === null || tile.first >= end) return end;
      if (!this.#see(tile)) return Math.max(first, tile.first);
    }
  }

  /** What has been planned since the last time: the work of one step. */
  take(): readonly TileWork[] {
    const work = this.#work;
    this.#work = [];
    this.#left = this.#mostOfStep;
    return work;
  }

  /** As many layers as there is room for. @returns whether it is seen whole */
  #see(tile: PlacedTile): boolean {
    const cost = this.#costOfLayer(tile);
    const wanted = this.#costs.numLayers - tile.numLayersSeen;
    const least = this.#work.length === 0 ? 1 : 0;
    const numLayers = Math.min(wanted, Math.max(least, Math.floor(this.#left / cost)));
    if (numLayers > 0) this.#work.push({ image: tile.image, tile: tile.number, numLayers });
    tile.numLayersSeen += numLayers;
    const isWhole = numLayers === wanted;
    // Nobody begins another one before: an executor keeps what one tile is between its layers.
    this.#left = isWhole ? this.#left - numLayers * cost : 0;
    return isWhole;
  }

  #costOfLayer({ numPatches }: PlacedTile): number {
    const { numLayers, ofPatch, ofPair } = this.#costs;
    return (numPatches * ofPatch + numPatches ** 2 * ofPair) / numLayers;
  }
}
