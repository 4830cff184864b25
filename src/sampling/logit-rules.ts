// The changes that a request makes to its logits before sampling, and the history that penalties count. Both depend on the
// request's own tokens alone; the history grows token by token, so that a step costs only what it changes.

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

/** What one row of logits goes through: the columns of the ops' `LogitEdits` for that row. */
export interface RowEdits {
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

export class LogitHistory {
  readonly #rules: LogitRules;
  readonly #countsPrompt: boolean;
  readonly #countsOutput: boolean;
  /** Columns of the tokens with a bias or a count, in the order in which they were first met. */
  readonly #ids: number[] = [];
  readonly #biases: number[] = [];
  #counts: number[] = [];
  readonly #places = new Map<number, number>();

  constructor(rules: LogitRules, promptTokenIds: readonly number[]) {
    this.#rules = rules;
    this.#countsPrompt = rules.repetitionPenalty !== 1;
    this.#countsOutput = this.#countsPrompt || rules.frequencyPenalty !== 0 || rules.presencePenalty !== 0;
    for (const [id, bias] of rules.biases) this.#biases[this.#placeOf(id)] = bias;
    if (this.#countsPrompt) for (const id of promptTokenIds) this.#counts[this.#placeOf(id)] = 0;
  }

  /** Counts a sampled token. */
  append(tokenId: number): void {
    if (!this.#countsOutput) return;
    const place = this.#placeOf(tokenId);
    this.#counts[place] = Math.max(0, this.#counts[place]!) + 1;
  }

  /** The edits of the row that samples the token after `tokens`; null where it is left as it is. */
  edits(tokens: readonly number[], promptLength: number): RowEdits | null {
    const { allowedTokenIds, repetitionPenalty, frequencyPenalty, presencePenalty } = this.#rules;
    const banned = this.#banned(tokens, promptLength);
    if (banned.length + this.#ids.length === 0 && allowedTokenIds === null) return null;
    return {
      allowedTokenIds,
      ids: [...banned, ...this.#ids],
      biases: [...banned.map(() => Number.NEGATIVE_INFINITY), ...this.#biases],
      counts: [...banned.map(() => NOT_COUNTED), ...this.#counts],
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
    const ahead = [...tokens];
    const [counts, numIds] = [[...this.#counts], this.#ids.length];
    const rows = [this.edits(ahead, promptLength)];
    for (const tokenId of draft) {
      ahead.push(tokenId);
      this.append(tokenId);
      rows.push(this.edits(ahead, promptLength));
    }
    for (const id of this.#ids.splice(numIds)) this.#places.delete(id);
    this.#biases.length = numIds;
    this.#counts = counts;
    return rows;
  }

  #banned(tokens: readonly number[], promptLength: number): number[] {
    const { badWords, endTokenIds, minTokens, allowedTokenIds } = this.#rules;
    const ends = tokens.length - promptLength < minTokens ? endTokenIds : [];
    const begun = badWords.longer.get(tokens.at(-1) ?? -1) ?? [];
    const words = begun
      .filter((word) => isNearlySaid(word, tokens, promptLength))
      .map((word) => word.at(-1)!);
    const banned = new Set([...ends, ...words, ...badWords.lone]);
    // Bad words that would leave nothing of the allowed tokens give way: something must be sampled.
    if (allowedTokenIds?.every((id) => banned.has(id))) return [...ends];
    return [...banned];
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
