// A process of its own that reads a tokenizer from its input and encodes with it. The library is written in Rust: where it panics, the
// process that it is in ends. What it merely refuses is no matter here: whoever reads the file next is told.
import { readFileSync } from 'node:fs';
import { Tokenizer } from 'tokenizers';

const ORDINARY = [
  ...Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)),
  " Hello, world! It's 12.5 % of a test.\n\n\tTwo  lines\r\n",
  'äöß éñ ½ Ελληνικά русский हिन्दी العربية 漢字 かな 한국어 👩‍💻 🏳️ \u0000 \u00a0 \u200d \ufffd \ufeff',
].join('');
const MOST_TOKENS = 1000;

try {
  const tokenizer = Tokenizer.fromString(readFileSync(0, 'utf8'));
  const tokens = Object.keys(tokenizer.getVocab(true));
  const step = Math.ceil(tokens.length / MOST_TOKENS);
  const ofVocabulary = tokens.filter((_, index) => index % step === 0).join('');
  for (const text of ['', 'a', ORDINARY, ofVocabulary]) {
    for (const addSpecialTokens of [true, false]) {
      await tokenizer.encode(text, null, { addSpecialTokens }).catch(() => {});
    }
  }
} catch {
  // An error is none of a panic's.
}
