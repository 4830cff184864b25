// A second, small model that guesses what the large one will sample: its most probable token, then the one after that. It
// has KV memory of its own, in which each sequence keeps what is right of it from one draft to the next.

import { BlockPool } from '../kv-cache/block-pool.ts';
import type { Model } from '../models/model.ts';
import { type KvCache, NO_TOKEN, type Ops, type SampledTokens, type SamplingRows } from '../ops/ops.ts';
import type { DraftedSequence, DraftWish, Proposer } from '../speculation/proposer.ts';
import { layOutRows, type SequenceRows } from './lay-out-rows.ts';

interface DraftState {
  readonly blocks: number[];
  /** Known tokens whose keys and values are stored. */
  numStored: number;
  /** Tokens of the last draft that are stored behind them. */
  guessed: readonly number[];
}

/** A draft in the making. */
interface Draft {
  readonly state: DraftState;
  /** All that are known of the sequence. */
  readonly tokens: readonly number[];
  /** Tokens to guess. */
  readonly count: number;
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
  propose(wishes: readonly DraftWish[]): readonly (readonly number[])[] {
    const drafts = wishes.map((wish) => this.#begin(wish));
    // A sequence that has its guesses leaves those before it in their places.
    const begun = drafts.filter((draft) => draft !== null).sort((x, y) => y.count - x.count);
    this.#catchUp(begun);
    const guesses = this.#guess(begun);
    return drafts.map((draft) => (draft && guesses.get(draft)) ?? []);
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

  /** Null where nothing can be guessed. */
  #begin({ sequence: { id, tokens }, maxTokens }: DraftWish): Draft | null {
    // The last guess is not read by the model.
    const count = Math.min(maxTokens, this.#limits.maxLength - tokens.length + 1);
    const state = this.#stateOf(id);
    if (count <= 0 || !this.#grow(state, tokens.length + count - 1)) return null;
    keepWhatIsRight(state, tokens);
    return { state, tokens, count };
  }

  /** Stores known tokens until those that are left can be computed at once. */
  #catchUp(drafts: readonly Draft[]): void {
    const { maxBatchedTokens } = this.#limits;
    let numLeft = drafts.reduce((sum, { state, tokens }) => sum + tokens.length - state.numStored, 0);
    for (const { state, tokens } of drafts) {
      while (numLeft > maxBatchedTokens && state.numStored < tokens.length - 1) {
        const end = Math.min(tokens.length - 1, state.numStored + maxBatchedTokens);
        const ids = tokens.slice(state.numStored, end);
        this.#ops.scope(() => this.#forward([rowsAt(state, state.numStored, ids)], null));
        state.numStored = end;
        numLeft -= ids.length;
      }
    }
  }

  /**
   * Computes the tokens that are not stored yet and samples the next one of each sequence, then computes that one, and so on.
   * @param drafts the longest first
   */
  #guess(drafts: readonly Draft[]): ReadonlyMap<Draft, readonly number[]> {
    const passes: SampledTokens[] = [];
    const isGoing = ({ count }: Draft) => count > passes.length;
    for (let going = drafts; going.length > 0; going = going.filter(isGoing)) {
      const before = passes.at(-1) ?? null;
      const rows = going.map(({ state, tokens }, row) =>
        before === null
          ? rowsAt(state, state.numStored, tokens.slice(state.numStored))
          : rowsAt(state, tokens.length + passes.length - 1, [-1 - row]),
      );
      passes.push(this.#ops.scope(() => this.#sample(rows, before)));
    }
    const sampled = passes.map((pass) => pass.read());
    return new Map(
      drafts.map((draft, row) => {
        const guesses = sampled.slice(0, draft.count).map((tokens) => tokens[row]!);
        draft.state.numStored = draft.tokens.length;
        draft.state.guessed = guesses.slice(0, -1);
        const broken = guesses.indexOf(NO_TOKEN);
        return [draft, broken < 0 ? guesses : guesses.slice(0, broken)];
      }),
    );
  }

  /** The most probable token after each sequence. */
  #sample(sequences: readonly SequenceRows[], sampled: SampledTokens | null): SampledTokens {
    const { hidden, queryStarts } = this.#forward(sequences, sampled);
    const lastRows = queryStarts.subarray(1).map((end) => end - 1);
    return this.#ops.sample(this.#model.logits(hidden, lastRows), mostProbable(sequences.length));
  }

  /** @param sampled what negative ids of `sequences` are rows of */
  #forward(sequences: readonly SequenceRows[], sampled: SampledTokens | null) {
    const { blockSize } = this.#cache.shape;
    const layout = { blockSize, numGroups: 1, shortContext: this.#model.shortContext ?? 0 };
    const { ids, ...arrays } = layOutRows(sequences, layout);
    const hidden = this.#model.forward({ ...arrays, tokens: { ids, sampled } }, this.#cache);
    return { hidden, queryStarts: arrays.batch.queryStarts };
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
      state = { blocks: [], numStored: 0, guessed: [] };
      this.#states.set(id, state);
    }
    return state;
  }
}

/** Counts the tokens of the last draft that have come as stored. */
function keepWhatIsRight(state: DraftState, tokens: readonly number[]): void {
  const { guessed, numStored } = state;
  const wrong = guessed.findIndex((tokenId, index) => tokenId !== tokens[numStored + index]);
  const numRight = wrong < 0 ? guessed.length : wrong;
  // The last token is computed again for what follows it.
  state.numStored = Math.min(numStored + numRight, tokens.length - 1);
  state.guessed = [];
}

/** A draft need not be right: all contexts are computed as long ones. */
function rowsAt({ blocks }: DraftState, firstPosition: number, ids: readonly number[]): SequenceRows {
  return { ids, firstPosition, isLong: true, tables: [blocks] };
}

function mostProbable(numRows: number): SamplingRows {
  return {
    temperature: new Float32Array(numRows),
    topK: new Int32Array(numRows),
    topP: new Float32Array(numRows).fill(1),
    minP: new Float32Array(numRows),
    uniform: new Float64Array(numRows),
  };
}
