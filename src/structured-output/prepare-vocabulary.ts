// Makes a vocabulary ready before its first mask is asked for: its trie, and the tokens of the lexemes that most grammars have,
// so that those who need masks soon find them. It takes some tenths of a second.

import { compile } from './compile.ts';
import { LexemeWalker } from './lexeme-tokens.ts';
import { Lexer } from './lexer.ts';
import type { TokenTexts } from './token-texts.ts';
import { buildTokenTrie } from './token-trie.ts';
import { type PreparedVocabulary, Vocabulary } from './vocabulary.ts';

/** Together they have the marks of JSON in both layouts, any key, and any scalar alone and among others. */
const COMMON_SCHEMAS = [
  true,
  { type: 'string' },
  { type: 'string', minLength: 1 },
  { type: 'number' },
  { type: 'integer' },
  { type: 'boolean' },
];

export function prepareVocabulary(texts: TokenTexts): PreparedVocabulary {
  const vocabulary = new Vocabulary({ trie: buildTokenTrie(texts), known: [], knownCounted: [] });
  for (const schema of COMMON_SCHEMAS) {
    for (const compact of [false, true]) {
      const grammar = compile({ kind: 'jsonSchema', schema, style: { compact } });
      new LexemeWalker(new Lexer(grammar), vocabulary).walkShared(grammar.lexemes.length);
    }
  }
  return { trie: vocabulary.trie, known: vocabulary.shared.entries(), knownCounted: [...vocabulary.counted] };
}
