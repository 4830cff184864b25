// A second, small model that guesses what the large one will sample: its most probable token, then the one after that. It
// has KV memory of its own, in which each sequence keeps what is right of it from one draft to the next.

import { BlockPool } from '../kv-cache/block-pool.ts';
import type { Model } from '../models/model.ts';
import { type KvCache, NO_TOKEN, type Ops, type SampledTokens } from '../ops/ops.ts';
import type { DraftedSequence, Proposer } from '../speculation/proposer.ts';

interface DraftState {
  readonly blocks: number[];
  /** Tokens whose keys and values are stored, those of the last draft among them. */
  stored: number[];
}

interface DraftLimits {
  /** Longest sequence that the model can read. */
  readonly maxLength: number;
  /** Most tokens that it computes at once. */
  readonly maxBatchedTokens: number;
}

export class DraftModel implements Proposer {
  readonly #ops: Ops;
  readonly #model: Model;
  readonly #cache: KvCache;
  readonly #limits: DraftLimits;
  readonly #pool: BlockPool;
  readonly #states = new Map<number, DraftState>();

  constructor(ops: Ops, model: Model, cache: KvCache, limits: DraftLimits) {
    this.#ops = ops;
    this.#model = model;
    this.#cache = cache;
    this.#limits = limits;
    this.#pool = new BlockPool(cache.shape.blocks);
  }

  /** There is always a most probable token, except where the sequence is too long. */
  expects({ tokens }: DraftedSequence): boolean {
    return tokens.length < this.#limits.maxLength;
  }

  /** Shorter at the end of what the model can read; none where its KV memory is full. */
  propose({ id, tokens }: DraftedSequence, maxTokens: number): readonly number[] {
    // The last guess is not read by the model.
    const count = Math.min(maxTokens, this.#limits.maxLength - tokens.length + 1);
    const state = this.#stateOf(id);
    if (count <= 0 || !this.#grow(state, tokens.length + count - 1)) return [];
    this.#computeKnown(state, tokens);
    return this.#guess(state, tokens, count);
  }

  forget(sequenceId: number): void {
    const state = this.#states.get(sequenceId);
    if (state === undefined) return;
    this.#pool.free(state.blocks);
    this.#states.delete(sequenceId);
  }

  /** Closes its backend, which may be that of the model it guesses for. */
  close(): void {
    this.#ops.close();
  }

  /** Stores all tokens but the last one, except those that a draft has stored already. */
  #computeKnown(state: DraftState, tokens: readonly number[]): void {
    const wrong = state.stored.findIndex((tokenId, index) => tokenId !== tokens[index]);
    if (wrong >= 0) state.stored.length = wrong;
    const end = tokens.length - 1;
    state.stored.length = Math.min(state.stored.length, end);
    while (state.stored.length < end) {
      const start = state.stored.length;
      const piece = tokens.slice(start, Math.min(end, start + this.#limits.maxBatchedTokens));
      this.#ops.scope(() => this.#forward(state, start, Int32Array.from(piece), null));
      state.stored.push(...piece);
    }
  }

  #guess(state: DraftState, tokens: readonly number[], count: number): readonly number[] {
    const sampled: SampledTokens[] = [];
    for (let index = 0; index < count; index += 1) {
      const before = sampled.at(-1) ?? null;
      // The guess before is row 0 of what the last pass samples.
      const ids = Int32Array.of(before === null ? tokens.at(-1)! : -1);
      sampled.push(
        this.#ops.scope(() => {
          const hidden = this.#forward(state, tokens.length - 1 + index, ids, before);
          return this.#ops.sample(this.#model.logits(hidden, Int32Array.of(0)), MOST_PROBABLE);
        }),
      );
    }
    const guesses = sampled.map((token) => token.read()[0]!);
    state.stored.push(tokens.at(-1)!, ...guesses.slice(0, -1));
    const broken = guesses.indexOf(NO_TOKEN);
    return broken < 0 ? guesses : guesses.slice(0, broken);
  }

  /** Hidden states of `ids` from position `start` on; a negative id is a token of `sampled`. */
  #forward({ blocks }: DraftState, start: number, ids: Int32Array, sampled: SampledTokens | null) {
    const { blockSize } = this.#cache.shape;
    const slotMapping = ids.map((_, index) => {
      const position = start + index;
      return blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
    });
    // A draft need not be right: all contexts are computed as long ones.
    const first = start + (this.#model.shortContext ?? 0);
    const positions = ids.map((_, index) => first + index);
    const batch = {
      numSequences: 1,
      queryStarts: Int32Array.of(0, ids.length),
      contextLengths: Int32Array.of(start + ids.length),
      blockTables: Int32Array.from(blocks),
      maxBlocks: blocks.length,
    };
    return this.#model.forward({ tokens: { ids, sampled }, positions, slotMapping, batch }, this.#cache);
  }

  #grow(state: DraftState, numTokens: number): boolean {
    const wanted = Math.ceil(numTokens / this.#cache.shape.blockSize) - state.blocks.length;
    if (wanted <= 0) return true;
    const blocks = this.#pool.allocate(wanted);
    if (blocks !== null) state.blocks.push(...blocks);
    return blocks !== null;
  }

  #stateOf(id: number): DraftState {
    let state = this.#states.get(id);
    if (state === undefined) {
      state = { blocks: [], stored: [] };
      this.#states.set(id, state);
    }
    return state;
  }
}

const MOST_PROBABLE = {
  temperature: new Float32Array(1),
  topK: new Int32Array(1),
  topP: Float32Array.of(1),
  minP: new Float32Array(1),
  uniform: new Float64Array(1),
};
