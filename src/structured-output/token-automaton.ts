// A grammar over the tokens of a vocabulary: its states and masks, shared by the sequences that it constrains.

import type { Grammar } from './grammar.ts';
import type { Vocabulary } from './vocabulary.ts';

export class TokenAutomaton {
  readonly grammar: Grammar;
  readonly vocabulary: Vocabulary;

  constructor(grammar: Grammar, vocabulary: Vocabulary) {
    this.grammar = grammar;
    this.vocabulary = vocabulary;
  }
}
