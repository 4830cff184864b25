// The automata of constraints that sequences are in: made of what the main thread's compiler has compiled, shared by the
// sequences of one constraint, and kept for the next ones.

import type { SequenceConstraint } from '../sampling/constrained-tokens.ts';
import type { PreparedGrammar } from '../structured-output/first-walks.ts';
import { Matcher } from '../structured-output/matcher.ts';
import { TokenAutomaton } from '../structured-output/token-automaton.ts';
import { type PreparedVocabulary, Vocabulary } from '../structured-output/vocabulary.ts';
import { LruCache } from '../util/lru-cache.ts';
import { unpackShared } from '../util/shared-value.ts';

/** A constraint, ready for the engine thread. Its memory is shared, so that a message with it costs nothing. */
export interface CompiledConstraint {
  /** The same for equal constraints. */
  readonly id: string;
  /** A `PreparedGrammar`. */
  readonly grammar: SharedArrayBuffer;
  /** The model's `PreparedVocabulary`: what would take long to build here. */
  readonly vocabulary: SharedArrayBuffer;
}

/** Each keeps at most 4 MiB of states. Their masks, which are most of it, share 128 MiB of the vocabulary's. */
const MAX_AUTOMATA = 32;

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
    this.#vocabulary ??= new Vocabulary(unpackShared<PreparedVocabulary>(vocabulary));
    const { grammar: unpacked, known } = unpackShared<PreparedGrammar>(grammar);
    const automaton = new TokenAutomaton(unpacked, this.#vocabulary, known);
    this.#automata.set(id, automaton);
    return automaton;
  }
}
