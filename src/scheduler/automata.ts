// The automata of constraints that sequences are in: made of what the main thread's compiler has compiled, shared by the
// sequences of one constraint, and kept for the next ones.

import type { SequenceConstraint } from '../sampling/constrained-tokens.ts';
import type { Grammar } from '../structured-output/grammar.ts';
import { Matcher } from '../structured-output/matcher.ts';
import { TokenAutomaton } from '../structured-output/token-automaton.ts';
import type { TokenTrie } from '../structured-output/token-trie.ts';
import { Vocabulary } from '../structured-output/vocabulary.ts';
import { LruCache } from '../util/lru-cache.ts';
import { unpackShared } from '../util/shared-value.ts';

/** A constraint, ready for the engine thread. Its memory is shared, so that a message with it costs nothing. */
export interface CompiledConstraint {
  /** The same for equal constraints. */
  readonly id: string;
  /** A `Grammar`. */
  readonly grammar: SharedArrayBuffer;
  /** The `TokenTrie` of the model's tokens: some 10 MB, which must not be built here. */
  readonly vocabulary: SharedArrayBuffer;
}

/** With masks of a vocabulary of 150,000 tokens one takes a few MB. */
const MAX_AUTOMATA = 64;

export class Automata {
  /** By the id of their constraint. */
  readonly #automata = new LruCache<string, TokenAutomaton>(MAX_AUTOMATA);
  /** All constraints are over the vocabulary of the one model. */
  #vocabulary: Vocabulary | null = null;

  /** The beginning of a sequence. */
  begin(constraint: CompiledConstraint): SequenceConstraint {
    const automaton = this.#automata.get(constraint.id) ?? this.#make(constraint);
    return { matcher: new Matcher(automaton), vocabulary: automaton.vocabulary };
  }

  #make({ id, grammar, vocabulary }: CompiledConstraint): TokenAutomaton {
    this.#vocabulary ??= new Vocabulary(unpackShared<TokenTrie>(vocabulary));
    const automaton = new TokenAutomaton(unpackShared<Grammar>(grammar), this.#vocabulary);
    this.#automata.set(id, automaton);
    return automaton;
  }
}
