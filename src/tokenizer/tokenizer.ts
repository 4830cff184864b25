// Text to token ids and back. The engine never sees text; the main thread never sees logits.

import type { Client } from '../util/client.ts';
import type { JoinedTexts } from './joined-texts.ts';

/** A tokenizer as published in tokenizer.json. */
export interface Tokenizer {
  /** One more than the largest id, added tokens included. */
  readonly vocabSize: number;
  /** The primary end token of tokenizer_config.json, null if it names none. */
  readonly eosTokenId: number | null;
  /** A number of tokens that `text` has at least, told at once; 0 where this tokenizer cannot say. */
  minTokens(text: string): number;
  /** @throws TooManyTokensError for more than `maxTokens`, OverloadedError where too many long texts wait, the reason of an abort. */
  encode(text: string, options: EncodeOptions): Promise<number[]>;
  /**
   * One text or two as one sequence, with the special tokens that the model expects around and between them.
   * @throws TooManyTokensError for more than `maxTokens`, where they are not to be cut, or not even one token of each text has room;
   * otherwise as `encode`.
   */
  encodeJoined(texts: Texts, options: JoinOptions): Promise<JoinedTexts>;
  /** The same of many short texts, without special tokens. */
  encodeAll(texts: readonly string[]): Promise<number[][]>;
  decode(ids: readonly number[], options: { readonly skipSpecialTokens: boolean }): Promise<string>;
  /**
   * A token by itself: its bytes, and the text that they are, U+FFFD where they are part of a character. A space that
   * only the beginning of a text would lose is there. Ids that no token has are empty.
   */
  describe(id: number): TokenDescription;
  /** The bytes of all tokens, as of `describe`; none of special tokens, which are no text. Takes a while. */
  tokenBytes(): Promise<TokenBytes>;
  /** A decoder that takes ids as they come and never gives half a character. */
  decodeStream(options: DecodeStreamOptions): DecodeStream;
  /** Ends its threads. */
  close(): Promise<void>;
}

/** One text, or two. */
export type Texts = readonly [string] | readonly [string, string];

export interface JoinOptions extends Client {
  readonly addSpecialTokens: boolean;
  readonly maxTokens: number;
  /** Whether the end of what is too long is cut. */
  readonly isCut: boolean;
}

export interface EncodeOptions extends Client {
  readonly addSpecialTokens: boolean;
  /** A text of more tokens is refused; every text will do where it is left out. */
  readonly maxTokens?: number | undefined;
}

/** A text has more tokens than `encode` was to give. */
export class TooManyTokensError extends Error {
  /** `600`, or `at least 600` where only a beginning of the text was looked at. */
  readonly numTokens: string;
  readonly #count: number;
  readonly #isWhole: boolean;

  constructor(numTokens: number, isWhole: boolean) {
    super(`the text has too many tokens, ${numTokens} or more`);
    this.numTokens = isWhole ? String(numTokens) : `at least ${numTokens}`;
    this.#count = numTokens;
    this.#isWhole = isWhole;
  }

  /** The same where `others` more tokens belong to the text. */
  with(others: number): TooManyTokensError {
    return new TooManyTokensError(this.#count + others, this.#isWhole);
  }
}

/** Those of token i are bytes[starts[i]] up to bytes[starts[i + 1] - 1]. */
export interface TokenBytes {
  readonly bytes: Uint8Array;
  /** [vocabSize + 1] */
  readonly starts: Int32Array;
  /** Ids by text. */
  readonly specialTokens: ReadonlyMap<string, number>;
}

export interface TokenDescription {
  readonly text: string;
  readonly bytes: Uint8Array;
}

export interface DecodeStreamOptions {
  readonly skipSpecialTokens: boolean;
  /** False puts nothing between two added tokens, whatever the decoder would put there; true by default. */
  readonly spacesBetweenSpecialTokens?: boolean;
  /** Special tokens that are text although the others are not. */
  readonly visibleTokens?: ReadonlySet<string> | undefined;
  readonly promptTokenIds: readonly number[];
}

/** Incremental detokenisation of one sequence. */
export interface DecodeStream {
  /** Text that `ids` add; bytes of an unfinished character are kept for the next call. */
  push(ids: readonly number[]): string;
  /** What is left at the end: an unfinished character comes out as U+FFFD. */
  flush(): string;
}

export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}

/** The place of an image, where the template writes a mark. */
export interface ImagePart {
  readonly type: 'image';
}

export type ContentPart = TextPart | ImagePart;

export interface ChatMessage {
  readonly role: string;
  /** Parts are for templates that write each of them by itself; others get their texts as lines of one, and take no images. */
  readonly content: string | readonly ContentPart[] | null;
  readonly name?: string;
  readonly tool_calls?: readonly ToolCallMessage[];
  readonly tool_call_id?: string;
  /** A thought, in the spellings of templates. */
  readonly reasoning?: string;
  readonly reasoning_content?: string;
  readonly thinking?: string;
}

export interface ToolCallMessage {
  readonly id: string;
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    /** JSON text of an object, or the object. */
    readonly arguments: string | Readonly<Record<string, unknown>>;
  };
}

/** Turns a conversation into the prompt that the model was trained on. */
export interface ChatTemplate {
  /** Jinja, as the model's files have it. */
  readonly source: string;
  /** Of the template for conversations with tools: another one in some models. */
  readonly sourceForTools: string;
  /**
   * @throws InvalidRequestError when the template refuses the conversation, or exceeds the limits of a rendering.
   * @throws OverloadedError when too many conversations wait to be rendered.
   */
  render(messages: readonly ChatMessage[], options: RenderOptions): Promise<string>;
  /** Ends the thread that renders; renderings in flight are rejected. */
  close(): Promise<void>;
}

export interface RenderOptions extends Pick<Client, 'caller'> {
  readonly addGenerationPrompt: boolean;
  /** Functions that the model may call: JSON, its numbers as of `parseExactJson`. */
  readonly tools?: readonly object[] | null;
  /** Further variables: JSON in the same way. */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** Takes the place of the model's own template. */
  readonly template?: string | null | undefined;
}
