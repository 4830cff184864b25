// What guesses tokens ahead: it needs to be right often, not always, since every guess is verified.

/** A sequence as drafts are made for it; its tokens only ever grow. */
export interface DraftedSequence {
  readonly id: number;
  /** All that are known. */
  readonly tokens: readonly number[];
}

export interface DraftWish {
  readonly sequence: DraftedSequence;
  /** Longest draft that is of use, one token at least. */
  readonly maxTokens: number;
}

export interface Proposer {
  /** Whether a draft may be expected once the next token is known: planning waits for that token then. */
  expects(sequence: DraftedSequence): boolean;
  /** For each wish the tokens that may follow; none where nothing can be said. Each sequence comes once. */
  propose(wishes: readonly DraftWish[]): readonly (readonly number[])[];
  /** Frees what is kept of a sequence; an id that is not known is ignored. */
  forget(sequenceId: number): void;
}
