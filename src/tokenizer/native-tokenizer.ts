// What is used of the `tokenizers` package. Declarations of our own: those of the package have errors, which programs that check the
// declarations of what they import would meet.

export interface NativeEncoding {
  getLength(): number;
  getIds(): number[];
  /** 0 for the first text, 1 for the second, where the tokenizer tells them apart. */
  getTypeIds(): number[];
  /** Which text a token is of; none for special tokens. */
  getSequenceIds(): (number | null | undefined)[];
}

interface NativeEncodeOptions {
  readonly addSpecialTokens: boolean;
}

export interface NativeTokenizer {
  encode(text: string, pair: string | null, options: NativeEncodeOptions): Promise<NativeEncoding>;
  encodeBatch(texts: string[], options: NativeEncodeOptions): Promise<NativeEncoding[]>;
  tokenToId(text: string): number | null;
  disablePadding(): void;
  disableTruncation(): void;
}
