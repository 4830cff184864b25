// Tiny tokenizers of every decoder family, written as tokenizer.json: what published models do, in a few lines.

/** The printable stand-ins of the 256 bytes, in the order in which byte-level vocabularies list them. */
function byteAlphabet(): string[] {
  const own = [...range(33, 126), ...range(161, 172), ...range(174, 255)];
  const others = range(0, 255).filter((byte) => !own.includes(byte));
  return [
    ...own.map((byte) => String.fromCodePoint(byte)),
    ...others.map((_, i) => String.fromCodePoint(256 + i)),
  ];
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

function vocabOf(tokens: readonly string[]): Record<string, number> {
  return Object.fromEntries(tokens.map((token, id) => [token, id]));
}

function added(id: number, content: string, special: boolean): object {
  return { id, content, special, single_word: false, lstrip: false, rstrip: false, normalized: false };
}

function file(parts: {
  model: object;
  decoder: object | null;
  added_tokens: object[];
  normalizer?: object;
  pre_tokenizer?: object;
}): object {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    ...parts,
  };
}

/** Byte-level BPE without merges: one token a byte, `<|end|>` special, `<tool>` added but not special. */
export function byteLevelTokenizer(): object {
  const tokens = byteAlphabet();
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  return file({
    model: { type: 'BPE', vocab: vocabOf(tokens), merges: [], byte_fallback: false },
    pre_tokenizer: byteLevel,
    decoder: byteLevel,
    added_tokens: [added(256, '<|end|>', true), added(257, '<tool>', false), added(258, 'a b', false)],
  });
}

/** The vocabulary of the sentencepiece style: pieces, then the 256 byte tokens. */
const PIECES = ['<unk>', '<s>', '</s>', '▁', '▁the', '▁cat', 's', 'é', '▁▁', 'x▁y'];

/** Sentencepiece style with byte fallback and a leading space that the decoder strips. */
export function byteFallbackTokenizer(): object {
  const bytes = range(0, 255).map((byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
  return file({
    model: {
      type: 'BPE',
      vocab: vocabOf([...PIECES, ...bytes]),
      merges: [],
      byte_fallback: true,
      unk_token: '<unk>',
      fuse_unk: true,
    },
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        { type: 'Strip', content: ' ', start: 1, stop: 0 },
      ],
    },
    added_tokens: PIECES.slice(0, 3).map((piece, id) => added(id, piece, true)),
  });
}

/** A vocabulary of whole words under any decoder. */
export function wordTokenizer(words: readonly string[], decoder: object | null): object {
  return file({
    model: { type: 'WordLevel', vocab: vocabOf(['<unk>', ...words]), unk_token: '<unk>' },
    decoder,
    added_tokens: [added(0, '<unk>', true)],
  });
}
