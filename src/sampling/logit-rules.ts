// The changes that a request makes to its logits before sampling, and the history that penalties count. Both depend on the
// request's own tokens alone; the history grows token by token, so that a step costs only what it changes.

import { ConstrainedTokens, type SequenceConstraint } from './constrained-tokens.ts';
import { fewIn } from './token-mask.ts';

/** Numbers only: words have become tokens, defaults are filled in. */
export interface LogitRules {
  /** 1 is no penalty. */
  readonly repetitionPenalty: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly biases: readonly (readonly [tokenId: number, bias: number])[];
  /** Null allows all. */
  readonly allowedTokenIds: Int32Array | null;
  /** Tokens that may not come before the answer has this many. */
  readonly minTokens: number;
  readonly endTokenIds: readonly number[];
  readonly badWords: BadWords;
}

/** Token sequences that must not appear in the answer, grouped so that a step looks only at those that its last token may complete. */
export interface BadWords {
  /** Those of one token. */
  readonly lone: readonly number[];
  /** The others, by their last token but one. */
  readonly longer: ReadonlyMap<number, readonly (readonly number[])[]>;
}

/** `words` are not empty. */
export function groupBadWords(words: readonly (readonly number[])[]): BadWords {
  const longer = new Map<number, (readonly number[])[]>();
  for (const word of words) {
    const key = word.at(-2);
    if (key === undefined) continue;
    const alike = longer.get(key);
    if (alike === undefined) longer.set(key, [word]);
    else alike.push(word);
  }
  return { lone: words.filter(({ length }) => length === 1).map(([id]) => id!), longer };
}

/** What one row of logits goes through: the columns of the ops' `LogitEdits` for that row. Its lists may be those of the history. */
export interface RowEdits {
  /** The tokens that may come, those of `allowedTokenIds` at most; null allows all. */
  readonly mask: Uint32Array | null;
  readonly allowedTokenIds: Int32Array | null;
  readonly ids: readonly number[];
  readonly biases: readonly number[];
  readonly counts: readonly number[];
  readonly repetition: number;
  readonly frequency: number;
  readonly presence: number;
}

/** Count of a token that no penalty touches. */
const NOT_COUNTED = -1;

/** Nothing that the constraint allows can come, or it costs too much to know what can. */
export type Refusal = 'nothingAllowed' | 'constraintTooCostly';

export class LogitHistory {
  readonly #rules: LogitRules;
  readonly #constrained: ConstrainedTokens | null;
  #isRefused = false;
  readonly #countsPrompt: boolean;
  readonly #countsOutput: boolean;
  /** Columns of the tokens with a bias or a count, in the order in which they were first met. */
  readonly #ids: number[] = [];
  readonly #biases: number[] = [];
  #counts: number[] = [];
  readonly #places = new Map<number, number>();
  /** Of the prompt: counted with the first row, for many requests wait, and few are computed. */
  #uncounted: readonly number[];

  constructor(
    rules: LogitRules,
    promptTokenIds: readonly number[],
    constraint: SequenceConstraint | null = null,
  ) {
    this.#rules = rules;
    this.#constrained = constraint === null ? null : new ConstrainedTokens(constraint, rules.allowedTokenIds);
    this.#countsPrompt = rules.repetitionPenalty !== 1;
    this.#countsOutput = this.#countsPrompt || rules.frequencyPenalty !== 0 || rules.presencePenalty !== 0;
    for (const [id, bias] of rules.biases) this.#biases[this.#placeOf(id)] = bias;
    this.#uncounted = this.#countsPrompt ? promptTokenIds : [];
  }

  /** Why a token came that the constraint does not allow, where one did: there was none that it allows. */
  get refusal(): Refusal | null {
    if (!this.#isRefused) return null;
    return this.#constrained?.isTooCostly ? 'constraintTooCostly' : 'nothingAllowed';
  }

  /** Whether the edits of a row depend on the tokens before it, and not on the rules alone. */
  get dependsOnOutput(): boolean {
    const { minTokens, badWords } = this.#rules;
    return this.#constrained !== null || this.#countsOutput || minTokens > 0 || badWords.longer.size > 0;
  }

  /** Whether the text of a constraint has ended. */
  get isOver(): boolean {
    return this.#constrained?.isOver ?? false;
  }

  /** Counts a sampled token. */
  append(tokenId: number): void {
    if (this.#constrained?.accept(tokenId) === false) this.#isRefused = true;
    this.#count(tokenId);
  }

  #countPrompt(): void {
    for (const id of this.#uncounted) this.#counts[this.#placeOf(id)] = 0;
    this.#uncounted = [];
  }

  #count(tokenId: number): void {
    if (!this.#countsOutput) return;
    this.#countPrompt();
    const place = this.#placeOf(tokenId);
    this.#counts[place] = Math.max(0, this.#counts[place]!) + 1;
  }

  /** The edits of the row that samples the token after `tokens`, until the next token is counted; null where it is left as it is. */
  edits(tokens: readonly number[], promptLength: number): RowEdits | null {
    this.#countPrompt();
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = this.#rules;
    const mask = this.#mask(tokens, promptLength);
    const banned = mask === null ? this.#banned(tokens, promptLength) : [];
    const allowedTokenIds = mask === null ? this.#rules.allowedTokenIds : null;
    if (banned.length + this.#ids.length === 0 && allowedTokenIds === null && mask === null) return null;
    const lists = { ids: this.#ids, biases: this.#biases, counts: this.#counts };
    return {
      mask,
      allowedTokenIds,
      ...(banned.length === 0 ? lists : withBanned(banned, lists)),
      repetition: repetitionPenalty,
      frequency: frequencyPenalty,
      presence: presencePenalty,
    };
  }

  /**
   * The edits of the row that samples the token after `tokens`, and of one row more for each token of `draft`, as if
   * those before it had been sampled. The history stays as it is.
   */
  draftEdits(tokens: readonly number[], promptLength: number, draft: readonly number[]): (RowEdits | null)[] {
    this.#countPrompt();
    const ahead = [...tokens];
    const [counts, numIds] = [[...this.#counts], this.#ids.length];
    const rows = this.#lookAhead(() => [
      copied(this.edits(ahead, promptLength)),
      ...draft.map((tokenId) => {
        ahead.push(tokenId);
        this.#constrained?.accept(tokenId);
        this.#count(tokenId);
        return copied(this.edits(ahead, promptLength));
      }),
    ]);
    for (const id of this.#ids.splice(numIds)) this.#places.delete(id);
    this.#biases.length = numIds;
    this.#counts = counts;
    return rows;
  }

  /** The beginning of `draft` that the constraint allows. */
  allowedDraft(draft: readonly number[]): readonly number[] {
    const constrained = this.#constrained;
    if (constrained === null) return draft;
    const wrong = this.#lookAhead(() => draft.findIndex((tokenId) => !constrained.accept(tokenId)));
    return wrong < 0 ? draft : draft.slice(0, wrong);
  }

  /**
   * The tokens that must follow `tokens`, since each is the only one that may come: at most `count`, those of the end are not
   * among them. The history stays as it is.
   */
  forcedTokens(tokens: readonly number[], promptLength: number, count: number): number[] {
    const constrained = this.#constrained;
    if (constrained === null || !constrained.isForced) return [];
    const ahead = [...tokens];
    return constrained.lookAhead(() => {
      while (ahead.length < tokens.length + count) {
        const [tokenId] = fewIn(this.#mask(ahead, promptLength)!, 1) ?? [];
        if (tokenId === undefined || !constrained.accept(tokenId) || constrained.isOver) break;
        ahead.push(tokenId);
      }
      return ahead.slice(tokens.length);
    });
  }

  #lookAhead<T>(body: () => T): T {
    return this.#constrained === null ? body() : this.#constrained.lookAhead(body);
  }

  /** Null without a constraint. */
  #mask(tokens: readonly number[], promptLength: number): Uint32Array | null {
    if (this.#constrained === null) return null;
    const ends = this.#endsTooEarly(tokens, promptLength);
    return this.#constrained.mask(ends, this.#endsOfBadWords(tokens, promptLength));
  }

  #banned(tokens: readonly number[], promptLength: number): number[] {
    const ends = this.#endsTooEarly(tokens, promptLength);
    const banned = new Set([...ends, ...this.#endsOfBadWords(tokens, promptLength)]);
    // Bad words that would leave nothing of the allowed tokens give way: something must be sampled.
    if (this.#rules.allowedTokenIds?.every((id) => banned.has(id))) return [...ends];
    return [...banned];
  }

  #endsTooEarly(tokens: readonly number[], promptLength: number): readonly number[] {
    return tokens.length - promptLength < this.#rules.minTokens ? this.#rules.endTokenIds : [];
  }

  /** The tokens that would complete a bad word. */
  #endsOfBadWords(tokens: readonly number[], promptLength: number): readonly number[] {
    const { longer, lone } = this.#rules.badWords;
    const begun = longer.get(tokens.at(-1) ?? -1) ?? [];
    const words = begun.filter((word) => isNearlySaid(word, tokens, promptLength));
    return [...words.map((word) => word.at(-1)!), ...lone];
  }

  #placeOf(id: number): number {
    const known = this.#places.get(id);
    if (known !== undefined) return known;
    this.#biases.push(0);
    this.#counts.push(NOT_COUNTED);
    this.#places.set(id, this.#ids.length);
    return this.#ids.push(id) - 1;
  }
}

/** Whether the answer ends with all of `word` but its last token. */
function isNearlySaid(word: readonly number[], tokens: readonly number[], promptLength: number): boolean {
  const start = tokens.length - (word.length - 1);
  return start >= promptLength && word.slice(0, -1).every((id, place) => tokens[start + place] === id);
}

type EditLists = Pick<RowEdits, 'ids' | 'biases' | 'counts'>;

function withBanned(banned: readonly number[], { ids, biases, counts }: EditLists): EditLists {
  return {
    ids: [...banned, ...ids],
    biases: [...banned.map(() => Number.NEGATIVE_INFINITY), ...biases],
    counts: [...banned.map(() => NOT_COUNTED), ...counts],
  };
}

function copied(edits: RowEdits | null): RowEdits | null {
  return edits && { ...edits, ids: [...edits.ids], biases: [...edits.biases], counts: [...edits.counts] };
}
