// Which sequences get a draft, tokens that are guessed ahead, and how long it may be. A wrong draft costs time and never
// changes an answer: the model samples every token itself, and a draft is kept as far as it is the same.

import type { SpeculativeConfig } from '../config/speculative-config.ts';
import { NgramProposer } from './ngram-proposer.ts';
import type { DraftedSequence, DraftWish, Proposer } from './proposer.ts';

/**
 * Rows of decoding sequences and drafts together up to which a step gets drafts: it waits for the weights then, and a row
 * more costs little. With AVX-512 the arithmetic of 8 rows takes as long as reading weights of bfloat16. On AMX 8 rows cost 5 to
 * 12 % more than one and 16 rows 7 to 21 %, by the format of the weights. A single sequence always has room for a whole draft.
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

interface DraftHistory {
  /** Drafts one after the other of which nothing was right. */
  numMisses: number;
  /** No draft before the sequence has so many tokens. */
  resumesAt: number;
}

export class Speculator {
  readonly #maxTokens: number;
  readonly #proposer: Proposer;
  readonly #histories = new Map<number, DraftHistory>();
  readonly #acceptedPerPosition: number[];
  readonly #totals = { drafts: 0, draftTokens: 0, acceptedTokens: 0 };

  constructor(config: SpeculativeConfig, draftModel: Proposer | null = null) {
    const { numSpeculativeTokens } = config;
    this.#maxTokens = numSpeculativeTokens;
    this.#proposer = proposerOf(config, draftModel);
    this.#acceptedPerPosition = new Array<number>(numSpeculativeTokens).fill(0);
  }

  get stats(): SpeculationStats {
    return { ...this.#totals, acceptedPerPosition: [...this.#acceptedPerPosition] };
  }

  /** Most tokens of a draft in a step of `numRows` rows without drafts, shared by `numSequences`. */
  maxDraftTokens(numRows: number, numSequences: number): number {
    const room = Math.max(MAX_ROWS, 1 + this.#maxTokens) - numRows;
    return Math.max(0, Math.min(this.#maxTokens, Math.floor(room / numSequences)));
  }

  /** Whether a draft may be expected once the next token is known: planning should wait for that token then. */
  expectsDraft(sequence: DraftedSequence): boolean {
    return !this.#isPaused(sequence) && this.#proposer.expects(sequence);
  }

  /** A draft for each sequence that has a wish and is not paused, by its id; one of no tokens where there is no telling. */
  propose(wishes: readonly DraftWish[]): ReadonlyMap<number, readonly number[]> {
    const granted = wishes.filter(({ sequence }) => !this.#isPaused(sequence));
    if (granted.length === 0) return new Map();
    const drafts = this.#proposer.propose(granted);
    return new Map(granted.map(({ sequence }, index) => [sequence.id, drafts[index]!]));
  }

  /** The first `numAccepted` of a draft of `numTokens` were right; the sequence will have them next, and a token after them. */
  verified(sequence: DraftedSequence, numTokens: number, numAccepted: number): void {
    this.#totals.drafts += 1;
    this.#totals.draftTokens += numTokens;
    this.#totals.acceptedTokens += numAccepted;
    for (let position = 0; position < numAccepted; position += 1) this.#acceptedPerPosition[position]! += 1;
    const history = this.#historyOf(sequence.id);
    if (numAccepted > 0) history.numMisses = 0;
    else {
      history.resumesAt = sequence.tokens.length + 1 + Math.min(MAX_PAUSE, 2 ** history.numMisses);
      history.numMisses += 1;
    }
  }

  forget(sequenceId: number): void {
    this.#histories.delete(sequenceId);
    this.#proposer.forget(sequenceId);
  }

  #isPaused({ id, tokens }: DraftedSequence): boolean {
    return tokens.length < (this.#histories.get(id)?.resumesAt ?? 0);
  }

  #historyOf(id: number): DraftHistory {
    let history = this.#histories.get(id);
    if (history === undefined) {
      history = { numMisses: 0, resumesAt: 0 };
      this.#histories.set(id, history);
    }
    return history;
  }
}

function proposerOf(config: SpeculativeConfig, draftModel: Proposer | null): Proposer {
  if (config.method === 'ngram') return new NgramProposer(config.promptLookupMin, config.promptLookupMax);
  if (draftModel === null) throw new Error('the executor has loaded no draft model');
  return draftModel;
}
