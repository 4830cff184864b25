// The automata of constraints that sequences are in: made of what the main thread's compiler has compiled, shared by the
// sequences of one constraint, and kept for the next ones.

import type { SequenceConstraint } from '../sampling/constrained-tokens.ts';
import type { Grammar } from '../structured-output/grammar.ts';
import { Matcher } from '../structured-output/matcher.ts';
import { TokenAutomaton } from '../structured-output/token-automaton.ts';
import { Vocabulary } from '../structured-output/vocabulary.ts';
import { LruCache } from '../util/lru-cache.ts';
import { unpackShared } from '../util/shared-value.ts';

/** A constraint, ready for the engine thread. Its memory is shared, so that a message with it costs nothing. */
export interface CompiledConstraint {
  /** The same for equal constraints. */
  readonly id: string;
  readonly grammar: SharedArrayBuffer;
  readonly vocabulary: SharedArrayBuffer;
}

/** Token i is bytes[starts[i]] up to bytes[starts[i + 1] - 1]; tokens without bytes are no text. */
export interface PackedVocabulary {
  readonly bytes: Uint8Array;
  readonly starts: Int32Array;
  readonly endTokenIds: readonly number[];
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
    this.#vocabulary ??= unpackVocabulary(unpackShared(vocabulary));
    const automaton = new TokenAutomaton(unpackShared<Grammar>(grammar), this.#vocabulary);
    this.#automata.set(id, automaton);
    return automaton;
  }
}

function unpackVocabulary({ bytes, starts, endTokenIds }: PackedVocabulary): Vocabulary {
  const tokens = Array.from({ length: starts.length - 1 }, (_, id) =>
    starts[id]! < starts[id + 1]! ? bytes.subarray(starts[id]!, starts[id + 1]!) : null,
  );
  return new Vocabulary(tokens, endTokenIds);
}
