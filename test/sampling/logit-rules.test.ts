import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { groupBadWords, LogitHistory, type LogitRules } from '../../src/sampling/logit-rules.ts';
import { NO_RULES } from '../helpers/new-request.ts';

const BAN = Number.NEGATIVE_INFINITY;

/** The edits after `output`, one line a token: id, bias, count. */
function linesOf(
  rules: Partial<LogitRules>,
  prompt: readonly number[],
  output: readonly number[],
): number[][] {
  const history = new LogitHistory({ ...NO_RULES, ...rules }, prompt);
  for (const id of output) history.append(id);
  const edits = history.edits([...prompt, ...output], prompt.length);
  return edits?.ids.map((id, i) => [id, edits.biases[i]!, edits.counts[i]!]) ?? [];
}

describe('LogitHistory', () => {
  it('counts the prompt only for the repetition penalty, and there as seen but not repeated', () => {
    expect(linesOf({ repetitionPenalty: 1.5 }, [7, 8, 7], [8, 9, 8])).toEqual([
      [7, 0, 0],
      [8, 0, 2],
      [9, 0, 1],
    ]);
    expect(linesOf({ frequencyPenalty: 1 }, [7, 8, 7], [8, 9, 8])).toEqual([
      [8, 0, 2],
      [9, 0, 1],
    ]);
  });

  it('keeps bias and count of the same token together', () => {
    expect(linesOf({ presencePenalty: 1, biases: [[4, 2]] }, [], [4, 5])).toEqual([
      [4, 2, 1],
      [5, 0, 1],
    ]);
  });

  it('bans the end tokens until the answer is long enough', () => {
    const rules = { minTokens: 2, endTokenIds: [1, 2] };
    expect(linesOf(rules, [5], [6])).toEqual([
      [1, BAN, -1],
      [2, BAN, -1],
    ]);
    expect(linesOf(rules, [5], [6, 6])).toEqual([]);
  });

  it('bans the last token of a bad word whose others have just been said, in the answer alone', () => {
    const rules = { badWords: groupBadWords([[3, 4, 5], [9]]) };
    const lastOf = (prompt: number[], output: number[]) => linesOf(rules, prompt, output).map(([id]) => id);
    expect(lastOf([], [3])).toEqual([9]);
    expect(lastOf([], [8, 3, 4])).toEqual([5, 9]);
    expect(lastOf([8], [3, 4])).toEqual([5, 9]);
    expect(lastOf([3], [4])).toEqual([9]);
    expect(lastOf([], [3, 4, 6])).toEqual([9]);
  });

  it('lets bad words give way where nothing else is allowed', () => {
    expect(linesOf({ badWords: groupBadWords([[3]]), allowedTokenIds: Int32Array.of(3) }, [], [])).toEqual(
      [],
    );
    expect(linesOf({ badWords: groupBadWords([[3]]), allowedTokenIds: Int32Array.of(3, 4) }, [], [])).toEqual(
      [[3, BAN, -1]],
    );
  });

  it('lets no end come early for bad words that give way', () => {
    const rules = { badWords: groupBadWords([[3]]), minTokens: 1, endTokenIds: [1] };
    expect(linesOf({ ...rules, allowedTokenIds: Int32Array.of(1, 3) }, [], [])).toEqual([[1, BAN, -1]]);
  });

  it('has no edits where nothing is to be changed', () => {
    const history = new LogitHistory({ ...NO_RULES, presencePenalty: 1 }, [1, 2]);
    expect(history.edits([1, 2], 2)).toBeNull();
    history.append(3);
    expect(history.edits([1, 2, 3], 2)).not.toBeNull();
  });

  it('gives each row of a draft the edits that the tokens before it would give, and forgets the draft', () => {
    const ids = fc.array(fc.nat(5), { maxLength: 6 });
    fc.assert(
      fc.property(
        ids,
        ids,
        ids,
        fc.constantFrom(1, 1.5),
        fc.constantFrom(0, 1),
        (prompt, output, draft, repetitionPenalty, presencePenalty) => {
          const rules: LogitRules = {
            ...NO_RULES,
            repetitionPenalty,
            presencePenalty,
            biases: [[2, 1]],
            minTokens: 4,
            endTokenIds: [1],
            badWords: groupBadWords([
              [3, 4],
              [0, 0, 5],
            ]),
          };
          const historyOf = (tokens: readonly number[]): LogitHistory => {
            const history = new LogitHistory(rules, prompt);
            for (const id of tokens) history.append(id);
            return history;
          };
          const history = historyOf(output);
          const rows = history.draftEdits([...prompt, ...output], prompt.length, draft);
          const expected = [...draft, null].map((_, index) => {
            const answer = [...output, ...draft.slice(0, index)];
            return historyOf(answer).edits([...prompt, ...answer], prompt.length);
          });
          expect(rows).toEqual(expected);
          expect(history).toEqual(historyOf(output));
        },
      ),
    );
  });
});
