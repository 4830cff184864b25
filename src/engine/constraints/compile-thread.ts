// Entry of the thread that compiles constraints and prepares the vocabulary that they are over, one after the other.

import { compile } from '../../structured-output/compile.ts';
import type { Constraint } from '../../structured-output/constraint.ts';
import { buildTokenTrie, type TokenTexts } from '../../structured-output/token-trie.ts';
import { serveCalls } from '../../util/call-thread.ts';
import { packShared } from '../../util/shared-value.ts';

/** What is to be made ready for the engine thread: a grammar of a constraint, or the trie of a model's tokens. */
export type CompileOrder = { readonly constraint: Constraint } | { readonly texts: TokenTexts };

serveCalls((order: CompileOrder) => ({
  value: packShared('texts' in order ? buildTokenTrie(order.texts) : compile(order.constraint)),
}));
