// The steps from token to text as machines that take one token at a time; the incremental detokenizer chains them.
// Each does what the step of the same name in tokenizer.json does to a whole list of tokens.

import { StringDecoder } from 'node:string_decoder';
import { TextDecoder } from 'node:util';
import type { SimpleDecoderSpec } from './decoder-spec.ts';

export type Sink = (piece: string) => void;

export interface Stage {
  /** Takes one token (one piece of text after a step that fuses) and passes the text that is final to `next`. */
  push(piece: string, next: Sink): void;
  end?(next: Sink): void;
}

const REPLACEMENT = '\u{FFFD}';

/** The stages of `specs`, fresh, for one sequence. Null is a tokenizer without a decoder: tokens joined by spaces. */
export function buildStages(specs: readonly SimpleDecoderSpec[] | null): Stage[] {
  if (specs === null) return [joinWithSpaces()];
  const stages: Stage[] = [];
  // After a fusing step there is one single token, which "first token" and "start of token" then mean.
  let isFused = false;
  for (const spec of specs) {
    if (spec.type !== 'Fuse') stages.push(buildStage(spec, isFused));
    isFused ||= spec.type === 'Fuse' || spec.type === 'ByteLevel';
  }
  return stages;
}

function buildStage(spec: Exclude<SimpleDecoderSpec, { type: 'Fuse' }>, isFused: boolean): Stage {
  switch (spec.type) {
    case 'ByteLevel':
      return new ByteLevelStage();
    case 'ByteFallback':
      return new ByteFallbackStage();
    case 'Replace':
      return replaceEach(spec.pattern, spec.content);
    case 'Strip':
      return isFused ? new StripStream(spec) : stripEach(spec);
    case 'Metaspace':
      return metaspace(spec, isFused);
    case 'WordPiece':
      return wordPiece(spec, isFused);
    case 'BPEDecoder':
      return wordSuffix(spec.suffix);
  }
}

/** Byte-level vocabularies write each of the 256 bytes as a printable character: character -> byte. */
export const BYTE_OF_CHAR: ReadonlyMap<string, number> = byteLevelAlphabet();

/** The bytes that a token of a byte-level vocabulary means; null where it is another token. */
export function byteLevelBytes(token: string): number[] | null {
  const bytes: number[] = [];
  for (const char of token) {
    const byte = BYTE_OF_CHAR.get(char);
    if (byte === undefined) return null;
    bytes.push(byte);
  }
  return bytes;
}

/** The byte of `<0xE2>`; null where `token` has another form. */
export function fallbackByte(token: string): number | null {
  const match = BYTE_TOKEN.exec(token);
  return match === null ? null : Number.parseInt(match[1] ?? '', 16);
}

function byteLevelAlphabet(): Map<string, number> {
  const alphabet = new Map<string, number>();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const standsForItself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 255 && byte !== 173);
    alphabet.set(String.fromCodePoint(standsForItself ? byte : next++), byte);
  }
  return alphabet;
}

class ByteLevelStage implements Stage {
  readonly #decoder = new StringDecoder('utf8');

  push(token: string, next: Sink): void {
    // A token with any other character (an added token) is its own text.
    const text = this.#decoder.write(Buffer.from(byteLevelBytes(token) ?? Buffer.from(token)));
    if (text !== '') next(text);
  }

  end(next: Sink): void {
    const rest = this.#decoder.end();
    if (rest !== '') next(rest);
  }
}

const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;

/** `<0xE2>` is one byte; a run of them is text, or one U+FFFD a byte from the first bad byte to the run's end. */
class ByteFallbackStage implements Stage {
  #decoder = newStrictDecoder();
  /** Bytes of a character that is not complete. */
  #numPending = 0;
  #isRunBroken = false;

  push(token: string, next: Sink): void {
    const byte = fallbackByte(token);
    if (byte === null) {
      this.end(next);
      next(token);
      return;
    }
    this.#numPending += 1;
    const text = this.#isRunBroken ? null : this.#decode(byte);
    if (text === '') return;
    next(text ?? REPLACEMENT.repeat(this.#numPending));
    this.#numPending = 0;
    this.#isRunBroken = text === null;
  }

  end(next: Sink): void {
    if (this.#numPending > 0) next(REPLACEMENT.repeat(this.#numPending));
    if (this.#numPending > 0 || this.#isRunBroken) this.#decoder = newStrictDecoder();
    this.#numPending = 0;
    this.#isRunBroken = false;
  }

  /** The character that `byte` completes, nothing where it is not complete, null where there is none such. */
  #decode(byte: number): string | null {
    try {
      return this.#decoder.decode(Uint8Array.of(byte), { stream: true });
    } catch {
      return null;
    }
  }
}

function newStrictDecoder(): TextDecoder {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
}

function replaceEach(pattern: { String: string } | { Regex: string }, content: string): Stage {
  const search = 'String' in pattern ? pattern.String : new RegExp(pattern.Regex, 'gu');
  return { push: (token, next) => next(token.replaceAll(search, () => content)) };
}

interface StripSpec {
  readonly content: string;
  readonly start: number;
  readonly stop: number;
}

function stripEach(spec: StripSpec): Stage {
  return {
    push(token, next) {
      const stream = new StripStream(spec);
      stream.push(token, next);
    },
  };
}

/** Strips the two ends of the whole text: at most `start` and `stop` times `content`. */
class StripStream implements Stage {
  readonly #content: string;
  readonly #stop: number;
  #toStrip: number;
  /** Trailing `content` characters that vanish if nothing follows. */
  #held = '';

  constructor(spec: StripSpec) {
    this.#content = spec.content;
    this.#toStrip = spec.start;
    this.#stop = spec.stop;
  }

  push(piece: string, next: Sink): void {
    let text = piece;
    while (this.#toStrip > 0 && text.startsWith(this.#content)) {
      text = text.slice(this.#content.length);
      this.#toStrip--;
    }
    if (text === '') return;
    this.#toStrip = 0;
    text = this.#held + text;
    let end = text.length;
    for (let i = 0; i < this.#stop && text.slice(0, end).endsWith(this.#content); i++) {
      end -= this.#content.length;
    }
    this.#held = text.slice(end);
    if (end > 0) next(text.slice(0, end));
  }
}

function metaspace(spec: Extract<SimpleDecoderSpec, { type: 'Metaspace' }>, isFused: boolean): Stage {
  const scheme = spec.prepend_scheme ?? (spec.add_prefix_space === false ? 'never' : 'always');
  let isFirst = true;
  return {
    push(token, next) {
      const space = isFirst && scheme !== 'never' ? '' : ' ';
      isFirst = isFused;
      next(token.replaceAll(spec.replacement, space));
    },
  };
}

/** Contractions and punctuation that word-piece tokenizers set apart, in the order in which they are joined again. */
const CLEANUPS: readonly (readonly [string, string])[] = [
  [' .', '.'],
  [' ?', '?'],
  [' !', '!'],
  [' ,', ','],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [' do not', " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

function wordPiece(spec: Extract<SimpleDecoderSpec, { type: 'WordPiece' }>, isFused: boolean): Stage {
  let isFirst = true;
  return {
    push(token, next) {
      let text = token;
      if (!isFirst) text = token.startsWith(spec.prefix) ? token.slice(spec.prefix.length) : ` ${token}`;
      isFirst = isFused;
      if (spec.cleanup) for (const [from, to] of CLEANUPS) text = text.replaceAll(from, to);
      next(text);
    },
  };
}

/** A suffix that closes a word is a space, but not at the end of the text. */
function wordSuffix(suffix: string): Stage {
  let owesSpace = false;
  return {
    push(token, next) {
      const closesWord = token.endsWith(suffix);
      const text = closesWord ? token.slice(0, -suffix.length) : token;
      next(owesSpace ? ` ${text}` : text);
      owesSpace = closesWord;
    },
  };
}

function joinWithSpaces(): Stage {
  let isFirst = true;
  return {
    push(token, next) {
      next(isFirst ? token : ` ${token}`);
      isFirst = false;
    },
  };
}
