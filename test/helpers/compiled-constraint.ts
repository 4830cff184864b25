// Constraints for tests of the engine, over a vocabulary of a test's own.

import { createHash } from 'node:crypto';
import type { CompiledConstraint } from '../../src/scheduler/automata.ts';
import { compile } from '../../src/structured-output/compile.ts';
import type { Constraint } from '../../src/structured-output/constraint.ts';
import { prepareGrammar } from '../../src/structured-output/first-walks.ts';
import { prepareVocabulary } from '../../src/structured-output/prepare-vocabulary.ts';
import { tokenTexts } from '../../src/structured-output/token-texts.ts';
import { packShared, unpackShared } from '../../src/util/shared-value.ts';

export interface TestVocabulary {
  /** By token id; an empty one is no text. */
  readonly texts: readonly string[];
  readonly endTokenIds: readonly number[];
  readonly packed: SharedArrayBuffer;
}

export function testVocabulary(texts: readonly string[], endTokenIds: readonly number[]): TestVocabulary {
  const tokens = texts.map((text) => Buffer.from(text));
  return { texts, endTokenIds, packed: packShared(prepareVocabulary(tokenTexts(tokens, endTokenIds))) };
}

export function compiledConstraint(constraint: Constraint, { packed }: TestVocabulary): CompiledConstraint {
  const id = createHash('sha256').update(JSON.stringify(constraint)).digest('hex');
  const prepared = prepareGrammar(compile(constraint), unpackShared(packed));
  return { id, grammar: packShared(prepared), vocabulary: packed };
}
