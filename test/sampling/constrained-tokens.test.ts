import { describe, expect, it } from 'vitest';
import { ConstrainedTokens } from '../../src/sampling/constrained-tokens.ts';
import { fewIn } from '../../src/sampling/token-mask.ts';
import { Automata } from '../../src/scheduler/automata.ts';
import { compiledConstraint, testVocabulary } from '../helpers/compiled-constraint.ts';

const TEXTS = ['', '', 'a', 'b', 'ab', 'abc'];
const ENDS = [0, 1];
const [A, B, AB, ABC] = [2, 3, 4, 5];
const vocabulary = testVocabulary(TEXTS, ENDS);

function startOf(pattern: string, allowedTokenIds: readonly number[] | null = null): ConstrainedTokens {
  const constraint = compiledConstraint({ kind: 'regex', pattern }, vocabulary);
  const allowed = allowedTokenIds === null ? null : Int32Array.from(allowedTokenIds);
  return new ConstrainedTokens(new Automata().begin(constraint), allowed);
}

/** What may come next, where `ends` and `words` are forbidden. */
const nextOf = (tokens: ConstrainedTokens, ends: number[] = [], words: number[] = []) =>
  fewIn(tokens.mask(ends, words), TEXTS.length);

describe('ConstrainedTokens', () => {
  it('allows the end beside the allowed tokens, where the constraint does, and nothing after it', () => {
    const tokens = startOf('[ab]+', [A, ABC]);
    expect(nextOf(tokens)).toEqual([A]);
    expect([tokens.accept(0), tokens.accept(B), tokens.accept(A)]).toEqual([false, false, true]);
    expect(nextOf(tokens)).toEqual([...ENDS, A]);
    expect([tokens.accept(1), tokens.isOver]).toEqual([true, true]);
    expect(nextOf(tokens)).toEqual(ENDS);
    expect([tokens.accept(A), tokens.accept(0)]).toEqual([false, true]);
  });

  it('forbids ends and words where others are left, and lets words give way before an end comes early', () => {
    const tokens = startOf('(a|b)*');
    expect(nextOf(tokens, ENDS, [A])).toEqual([B, AB]);
    expect(nextOf(tokens, ENDS, [A, B, AB])).toEqual([A, B, AB]);
    expect(nextOf(tokens, [], [A, B, AB])).toEqual(ENDS);
    const complete = startOf('a');
    complete.accept(A);
    expect(nextOf(complete, ENDS)).toEqual(ENDS);
  });

  it('takes the longest token of what must come, and leaves to the model what goes on behind it', () => {
    expect(nextOf(startOf('abca'))).toEqual([ABC]);
    expect(nextOf(startOf('a(b|c)?'))).toEqual([A, AB]);
  });

  it('takes back what was accepted to look ahead, an end included', () => {
    const tokens = startOf('a?b?');
    const seen = tokens.lookAhead(() => [tokens.accept(A), tokens.accept(0), tokens.isOver]);
    expect(seen).toEqual([true, true, true]);
    expect(tokens.isOver).toBe(false);
    expect(nextOf(tokens)).toEqual([...ENDS, A, B, AB]);
  });
});
