// Token ids of one sequence to text as they come: never half a character, never a second look at old ids.
// The library's own decode is asynchronous and starts from the first id each time; this is what streams use.

import type { SimpleDecoderSpec } from './decoder-spec.ts';
import { buildStages, fallbackByte, type Sink, type Stage } from './decoder-stages.ts';
import type { DecodeStream, DecodeStreamOptions } from './tokenizer.ts';

/** What a detokenizer knows of its vocabulary; shared by all sequences of a model. */
export interface TokenTable {
  /** Text of each id as the vocabulary spells it; holes are ids that no token has. */
  readonly texts: readonly (string | undefined)[];
  /** Tokens that were added to the vocabulary of the model, special or not. */
  readonly addedIds: ReadonlySet<number>;
  readonly specialIds: ReadonlySet<number>;
}

/** Prompt ids at each end that are looked at: the first decide about leading spaces, the last about open bytes. */
const CONTEXT = 32;
const NONE: ReadonlySet<string> = new Set();

export class IncrementalDetokenizer implements DecodeStream {
  readonly #table: TokenTable;
  readonly #skipSpecialTokens: boolean;
  readonly #visibleTokens: ReadonlySet<string>;
  readonly #spacesBetweenAdded: boolean;
  readonly #stages: readonly Stage[];
  /** `#sinks[i]` feeds stage i; the last one collects text. */
  readonly #sinks: readonly Sink[];
  #text = '';
  #isAfterAdded = false;

  constructor(table: TokenTable, decoder: readonly SimpleDecoderSpec[] | null, options: DecodeStreamOptions) {
    this.#table = table;
    this.#skipSpecialTokens = options.skipSpecialTokens;
    this.#visibleTokens = options.visibleTokens ?? NONE;
    this.#spacesBetweenAdded = options.spacesBetweenSpecialTokens ?? true;
    this.#stages = buildStages(decoder);
    this.#sinks = chainStages(this.#stages, (piece) => {
      this.#text += piece;
    });
    const prompt = options.promptTokenIds;
    if (prompt.length <= 2 * CONTEXT) this.push(this.#fromWholeCharacter(prompt));
    else {
      this.push(prompt.slice(0, CONTEXT));
      // Nothing that the beginning leaves open goes on at the end.
      this.flush();
      this.push(this.#fromWholeCharacter(prompt.slice(-CONTEXT)));
    }
  }

  /** Without the rest of a character that `ids` begin within: it would spoil the bytes after it. */
  #fromWholeCharacter(ids: readonly number[]): readonly number[] {
    const start = ids.findIndex((id) => {
      const byte = fallbackByte(this.#table.texts[id] ?? '');
      return byte === null || (byte & 0xc0) !== 0x80;
    });
    return start > 0 ? ids.slice(start) : ids;
  }

  push(ids: readonly number[]): string {
    const feed = this.#sinks[0]!;
    for (const id of ids) {
      const token = this.#table.texts[id];
      if (token === undefined) continue;
      if (this.#skipSpecialTokens && this.#table.specialIds.has(id) && !this.#visibleTokens.has(token))
        continue;
      const isAdded = this.#table.addedIds.has(id);
      const isGlued = isAdded && this.#isAfterAdded && !this.#spacesBetweenAdded;
      if (isGlued) this.#text += token;
      else feed(token);
      this.#isAfterAdded = isAdded;
    }
    return this.#take();
  }

  flush(): string {
    this.#stages.forEach((stage, i) => {
      stage.end?.(this.#sinks[i + 1]!);
    });
    return this.#take();
  }

  #take(): string {
    const text = this.#text;
    this.#text = '';
    return text;
  }
}

/** `result[i]` feeds stage i; the last stage writes to `last`. */
export function chainStages(stages: readonly Stage[], last: Sink): Sink[] {
  const sinks = [last];
  for (const stage of stages.toReversed()) {
    const next = sinks[0]!;
    sinks.unshift((piece) => stage.push(piece, next));
  }
  return sinks;
}
