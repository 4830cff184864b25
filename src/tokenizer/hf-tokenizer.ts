// The Tokenizer over the `tokenizers` package: encoding off the event loop, streams by our own detokenizer.

import type { Tokenizer as NativeTokenizer } from 'tokenizers';
import { InvalidRequestError } from '../errors.ts';
import type { SimpleDecoderSpec } from './decoder-spec.ts';
import { buildStages } from './decoder-stages.ts';
import { IncrementalDetokenizer, type TokenTable } from './incremental-detokenizer.ts';
import { describeToken } from './token-bytes.ts';
import type { DecodeStream, DecodeStreamOptions, TokenDescription, Tokenizer } from './tokenizer.ts';

export interface HfTokenizerParts {
  readonly native: NativeTokenizer;
  /** The steps of tokenizer.json's decoder; null when it has none. */
  readonly decoder: readonly SimpleDecoderSpec[] | null;
  /** Texts of all added tokens. */
  readonly addedTokens: ReadonlySet<string>;
  /** Texts of the added tokens that are special. */
  readonly specialTokens: ReadonlySet<string>;
  /** UTF-16 units of text that one token can stand for at most; null where that is not known. */
  readonly tokenReach: number | null;
  /** Text of the primary end token; null if the model names none. */
  readonly eosToken: string | null;
}

export class HfTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly eosTokenId: number | null;
  readonly #native: NativeTokenizer;
  readonly #decoder: readonly SimpleDecoderSpec[] | null;
  readonly #table: TokenTable;
  readonly #descriptions = new Map<number, TokenDescription>();
  readonly #tokenReach: number | null;

  constructor(parts: HfTokenizerParts) {
    this.#native = parts.native;
    // What a file says about padding and truncation is meant for training.
    this.#native.disablePadding();
    this.#native.disableTruncation();
    this.#decoder = parts.decoder;
    // A pattern that does not compile is found here, not in a request.
    buildStages(parts.decoder);
    this.#table = tokenTable(parts.native.getVocab(true), parts);
    this.#tokenReach = parts.tokenReach;
    this.vocabSize = parts.native.getVocabSize(true);
    this.eosTokenId = parts.eosToken === null ? null : parts.native.tokenToId(parts.eosToken);
  }

  minTokens(text: string): number {
    return this.#tokenReach === null ? 0 : Math.ceil(text.length / this.#tokenReach);
  }

  async encode(text: string, options: { readonly addSpecialTokens: boolean }): Promise<number[]> {
    const { addSpecialTokens } = options;
    const encoding = await this.#native.encode(text, null, { addSpecialTokens }).catch((cause: unknown) => {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new InvalidRequestError(`the tokenizer of this model cannot encode the text: ${reason}`, {
        cause,
      });
    });
    return encoding.getIds();
  }

  /** By our own steps, not the library's: those end the process on a few token lists (a Strip of an empty token). */
  async decode(ids: readonly number[], options: { readonly skipSpecialTokens: boolean }): Promise<string> {
    const stream = this.decodeStream({ ...options, promptTokenIds: [] });
    return stream.push(ids) + stream.flush();
  }

  describe(id: number): TokenDescription {
    const known = this.#descriptions.get(id);
    if (known !== undefined) return known;
    const description = describeToken(this.#table, this.#decoder, id);
    this.#descriptions.set(id, description);
    return description;
  }

  decodeStream(options: DecodeStreamOptions): DecodeStream {
    return new IncrementalDetokenizer(this.#table, this.#decoder, options);
  }
}

function tokenTable(
  vocab: Readonly<Record<string, number>>,
  { addedTokens, specialTokens }: Pick<HfTokenizerParts, 'addedTokens' | 'specialTokens'>,
): TokenTable {
  const texts: (string | undefined)[] = [];
  const addedIds = new Set<number>();
  const specialIds = new Set<number>();
  for (const [text, id] of Object.entries(vocab)) {
    texts[id] = text;
    if (addedTokens.has(text)) addedIds.add(id);
    if (specialTokens.has(text)) specialIds.add(id);
  }
  return { texts, addedIds, specialIds };
}
