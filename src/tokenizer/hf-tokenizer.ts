// The Tokenizer over the `tokenizers` package: encoding off the event loop, streams by our own detokenizer.

import { abortable } from '../util/abortable.ts';
import { CallThread } from '../util/call-thread.ts';
import type { Client } from '../util/client.ts';
import { numberList } from '../util/number-list.ts';
import { yieldTurn } from '../util/yield-turn.ts';
import type { SimpleDecoderSpec } from './decoder-spec.ts';
import { buildStages } from './decoder-stages.ts';
import { encodeText } from './encode-text.ts';
import type { EncodedText, LongText } from './encode-thread.ts';
import { IncrementalDetokenizer, type TokenTable } from './incremental-detokenizer.ts';
import { type JoinedTexts, joinTexts } from './joined-texts.ts';
import type { NativeTokenizer } from './native-tokenizer.ts';
import { describeToken } from './token-bytes.ts';
import {
  type DecodeStream,
  type DecodeStreamOptions,
  type EncodeOptions,
  type JoinOptions,
  type Texts,
  type TokenBytes,
  type TokenDescription,
  type Tokenizer,
  TooManyTokensError,
} from './tokenizer.ts';

/** Characters of a text whose tokens the main thread can take and free between two events. */
const LONG_TEXT = 32_768;
/** Megabytes take seconds, on a machine that is busy many. */
const LONG_TEXT_DEADLINE_MS = 120_000;
/** Characters of the long texts that wait, and how long one may: about as long as it takes to tokenise as many. */
const MAX_WAITING_CHARS = 64 * 1024 * 1024;
const WAIT_MS = 30_000;
/** Tokens: a millisecond or so. */
const DECODED_AT_ONCE = 1024;
const DESCRIBED_AT_ONCE = 64;
const NO_BYTES = new Uint8Array(0);

interface HfTokenizerParts {
  /** The text of which `native` was made: a second thread may need a tokenizer of its own, whatever became of the file. */
  readonly source: string;
  readonly native: NativeTokenizer;
  /** Ids of all tokens, the added ones included. */
  readonly vocab: Readonly<Record<string, number>>;
  /** The steps of tokenizer.json's decoder; null when it has none. */
  readonly decoder: readonly SimpleDecoderSpec[] | null;
  /** Texts of all added tokens. */
  readonly addedTokens: ReadonlySet<string>;
  /** Texts of the added tokens that are special. */
  readonly specialTokens: ReadonlySet<string>;
  /** UTF-16 units of text that become one token at most; null where that is not known. */
  readonly maxCharsPerToken: number | null;
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
  readonly #maxCharsPerToken: number | null;
  readonly #longTexts: CallThread<LongText, EncodedText>;

  constructor(parts: HfTokenizerParts) {
    this.#native = parts.native;
    // What a file says about padding and truncation is meant for training.
    this.#native.disablePadding();
    this.#native.disableTruncation();
    this.#decoder = parts.decoder;
    // A pattern that does not compile is found here, not in a request.
    buildStages(parts.decoder);
    this.#table = tokenTable(parts);
    this.#maxCharsPerToken = parts.maxCharsPerToken;
    this.#longTexts = new CallThread(new URL('./encode-thread', import.meta.url), {
      name: 'svc-encode',
      data: { source: parts.source },
      deadlineMs: LONG_TEXT_DEADLINE_MS,
      waitMs: WAIT_MS,
      maxWaiting: MAX_WAITING_CHARS,
      sizeOf: ({ text, join }) => text.length + (join?.pair?.length ?? 0),
    });
    this.vocabSize = this.#table.texts.length;
    this.eosTokenId = parts.eosToken === null ? null : parts.native.tokenToId(parts.eosToken);
  }

  minTokens(text: string): number {
    return this.#maxCharsPerToken === null ? 0 : Math.ceil(text.length / this.#maxCharsPerToken);
  }

  async encode(text: string, options: EncodeOptions): Promise<number[]> {
    const { addSpecialTokens, maxTokens = Number.POSITIVE_INFINITY } = options;
    const { numTokens, isWhole, ids } =
      text.length > LONG_TEXT
        ? await this.#encodeLong({ text, addSpecialTokens, maxTokens, join: null }, options)
        : await this.#encode(text, addSpecialTokens);
    if (ids === null || numTokens > maxTokens) throw new TooManyTokensError(numTokens, isWhole);
    return numberList(ids);
  }

  async encodeJoined([text, second]: Texts, options: JoinOptions): Promise<JoinedTexts> {
    const { addSpecialTokens, maxTokens, isCut } = options;
    const isLong = text.length + (second?.length ?? 0) > LONG_TEXT;
    const order = { text, addSpecialTokens, maxTokens, join: { pair: second ?? null, isCut } };
    const { numTokens, isWhole, ids, secondTextStart } = isLong
      ? await this.#encodeLong(order, options)
      : await this.#encodeJoined(order);
    if (ids === null) throw new TooManyTokensError(numTokens, isWhole);
    return { ids, secondTextStart };
  }

  /** A text whose request is given up while it waits for others does not hold them up, nor do many of one caller. */
  #encodeLong(order: LongText, { signal, caller }: Client): Promise<EncodedText> {
    return abortable(signal, (ended) => {
      ended.addEventListener('abort', () => this.#longTexts.withdraw(order), { once: true });
      return this.#longTexts.call(order, { caller });
    });
  }

  async #encodeJoined({ text, addSpecialTokens, maxTokens, join }: LongText): Promise<EncodedText> {
    const encoding = await encodeText(this.#native, text, addSpecialTokens, join?.pair);
    const numTokens = encoding.getLength();
    const isRefused = numTokens > maxTokens && !join?.isCut;
    const joined = isRefused ? null : joinTexts(encoding, maxTokens);
    return { numTokens, isWhole: true, ids: null, secondTextStart: null, ...joined };
  }

  async encodeAll(texts: readonly string[]): Promise<number[][]> {
    if (texts.length === 0) return [];
    const encodings = await this.#native.encodeBatch([...texts], { addSpecialTokens: false });
    return encodings.map((encoding) => encoding.getIds());
  }

  close(): Promise<void> {
    return this.#longTexts.close();
  }

  async #encode(text: string, addSpecialTokens: boolean) {
    const encoding = await encodeText(this.#native, text, addSpecialTokens);
    return { numTokens: encoding.getLength(), isWhole: true, ids: encoding.getIds() };
  }

  /** By our own steps, not the library's: those end the process on a few token lists (a Strip of an empty token). */
  async decode(ids: readonly number[], options: { readonly skipSpecialTokens: boolean }): Promise<string> {
    const stream = this.decodeStream({ ...options, promptTokenIds: [] });
    let text = '';
    for (let at = 0; at < ids.length; at += DECODED_AT_ONCE) {
      text += stream.push(ids.slice(at, at + DECODED_AT_ONCE));
      await yieldTurn();
    }
    return text + stream.flush();
  }

  describe(id: number): TokenDescription {
    const known = this.#descriptions.get(id);
    if (known !== undefined) return known;
    const description = describeToken(this.#table, this.#decoder, id);
    this.#descriptions.set(id, description);
    return description;
  }

  async tokenBytes(): Promise<TokenBytes> {
    const pieces: Uint8Array[] = [];
    const starts = new Int32Array(this.vocabSize + 1);
    for (let id = 0; id < this.vocabSize; id += 1) {
      const isText = !this.#table.specialIds.has(id);
      const bytes = isText ? describeToken(this.#table, this.#decoder, id).bytes : NO_BYTES;
      pieces.push(bytes);
      starts[id + 1] = starts[id]! + bytes.length;
      if (id % DESCRIBED_AT_ONCE === 0) await yieldTurn();
    }
    const specialTokens = new Map([...this.#table.specialIds].map((id) => [this.#table.texts[id] ?? '', id]));
    return { bytes: Buffer.concat(pieces), starts, specialTokens };
  }

  decodeStream(options: DecodeStreamOptions): DecodeStream {
    return new IncrementalDetokenizer(this.#table, this.#decoder, options);
  }
}

function tokenTable({ vocab, addedTokens, specialTokens }: HfTokenizerParts): TokenTable {
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
