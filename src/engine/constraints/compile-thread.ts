// Entry of the thread that compiles constraints and prepares the vocabulary that they are over, one after the other.

import { compile } from '../../structured-output/compile.ts';
import type { Constraint } from '../../structured-output/constraint.ts';
import { prepareGrammar } from '../../structured-output/first-walks.ts';
import { prepareVocabulary } from '../../structured-output/prepare-vocabulary.ts';
import type { TokenTexts } from '../../structured-output/token-texts.ts';
import type { PreparedVocabulary } from '../../structured-output/vocabulary.ts';
import { serveCalls } from '../../util/call-thread.ts';
import { packShared, unpackShared } from '../../util/shared-value.ts';

/** What is to be made ready for the engine thread: a constraint over a `PreparedVocabulary`, or the vocabulary of the model. */
export type CompileOrder =
  | { readonly constraint: Constraint; readonly vocabulary: SharedArrayBuffer }
  | { readonly texts: TokenTexts };

/** There is one in a process; views of the memory that the engine thread has, too. */
let vocabulary: PreparedVocabulary | null = null;

serveCalls((order: CompileOrder) => {
  if ('texts' in order) return { value: packShared(prepareVocabulary(order.texts)) };
  vocabulary ??= unpackShared<PreparedVocabulary>(order.vocabulary);
  const grammar = compile(order.constraint, vocabulary.trie.specialTokens);
  return { value: packShared(prepareGrammar(grammar, vocabulary)) };
});
