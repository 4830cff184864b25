// Which sequences get a draft, tokens that are guessed ahead, and how long it may be. A wrong draft costs time and never
// changes an answer: the model samples every token itself, and a draft is kept as far as it is the same.

import type { SpeculativeConfig } from '../config/speculative-config.ts';
import { NgramIndex } from './ngram-index.ts';

/**
 * Rows of decoding sequences and drafts together up to which a step gets drafts: it waits for the weights then, and a row
 * more costs little. A single sequence always has room for a whole draft.
 */
const MAX_ROWS = 8;
/** A sequence whose last drafts were all wrong gets none for 1, 2, 4 ... tokens, at most so many. */
const MAX_PAUSE = 64;

export interface SpeculationStats {
  readonly drafts: number;
  readonly draftTokens: number;
  readonly acceptedTokens: number;
  /** How often the first token of a draft was accepted, the second, and so on. */
  readonly acceptedPerPosition: readonly number[];
}

/** A sequence as drafts are made for it; its tokens only ever grow. */
interface Sequence {
  readonly id: number;
  readonly tokens: readonly number[];
}

interface DraftHistory {
  readonly index: NgramIndex;
  /** Drafts one after the other of which nothing was right. */
  numMisses: number;
  /** No draft before the sequence has so many tokens. */
  resumesAt: number;
}

export class Speculator {
  readonly #config: SpeculativeConfig;
  readonly #histories = new Map<number, DraftHistory>();
  readonly #acceptedPerPosition: number[];
  readonly #totals = { drafts: 0, draftTokens: 0, acceptedTokens: 0 };

  constructor(config: SpeculativeConfig) {
    this.#config = config;
    this.#acceptedPerPosition = new Array<number>(config.numSpeculativeTokens).fill(0);
  }

  get stats(): SpeculationStats {
    return { ...this.#totals, acceptedPerPosition: [...this.#acceptedPerPosition] };
  }

  /** Most tokens of a draft in a step of `numRows` rows without drafts, shared by `numSequences`. */
  maxDraftTokens(numRows: number, numSequences: number): number {
    const { numSpeculativeTokens } = this.#config;
    const room = Math.max(MAX_ROWS, 1 + numSpeculativeTokens) - numRows;
    return Math.max(0, Math.min(numSpeculativeTokens, Math.floor(room / numSequences)));
  }

  /** Whether a draft may be expected once the next token is known: where it will be too, planning should wait for it. */
  expectsDraft(sequence: Sequence): boolean {
    return this.propose(sequence, 1).length > 0;
  }

  /** Up to `maxTokens` tokens that may follow. */
  propose(sequence: Sequence, maxTokens: number): readonly number[] {
    const { index, resumesAt } = this.#historyOf(sequence);
    return sequence.tokens.length < resumesAt ? [] : index.continuation(sequence.tokens, maxTokens);
  }

  /** The first `numAccepted` of a draft of `numTokens` were right; the sequence will have them next, and a token after them. */
  verified(sequence: Sequence, numTokens: number, numAccepted: number): void {
    this.#totals.drafts += 1;
    this.#totals.draftTokens += numTokens;
    this.#totals.acceptedTokens += numAccepted;
    for (let position = 0; position < numAccepted; position += 1) this.#acceptedPerPosition[position]! += 1;
    const history = this.#historyOf(sequence);
    if (numAccepted > 0) history.numMisses = 0;
    else {
      history.resumesAt = sequence.tokens.length + 1 + Math.min(MAX_PAUSE, 2 ** history.numMisses);
      history.numMisses += 1;
    }
  }

  forget(sequenceId: number): void {
    this.#histories.delete(sequenceId);
  }

  #historyOf({ id }: Sequence): DraftHistory {
    let history = this.#histories.get(id);
    if (history === undefined) {
      const { promptLookupMin, promptLookupMax } = this.#config;
      history = { index: new NgramIndex(promptLookupMin, promptLookupMax), numMisses: 0, resumesAt: 0 };
      this.#histories.set(id, history);
    }
    return history;
  }
}
