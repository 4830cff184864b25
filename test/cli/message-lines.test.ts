import { describe, expect, it } from 'vitest';
import { MessageLines } from '../../src/cli/chat/message-lines.ts';

/** The messages that the lines make; what is open at the end comes last. */
function messages(...typed: readonly string[]): string[] {
  const lines = new MessageLines();
  const found = typed.map((line) => lines.add(line)).filter((message) => message !== null);
  return lines.isOpen ? [...found, `open: ${lines.take()}`] : found;
}

describe('the lines of a message', () => {
  it('are one each', () => {
    expect(messages('one', '', 'two')).toEqual(['one', '', 'two']);
  });

  it('go on behind a backslash', () => {
    expect(messages('one\\', 'two \\', 'three', 'four')).toEqual(['one\ntwo \nthree', 'four']);
  });

  it('are all that stands between three quotes', () => {
    expect(messages('"""', 'one', '', ' two\\', '"""', 'three')).toEqual(['one\n\n two\\', 'three']);
    expect(messages('"""one', 'two"""')).toEqual(['one\ntwo']);
    expect(messages('"""one"""')).toEqual(['one']);
  });

  it('may hold quotes in the middle', () => {
    expect(messages('say """ twice')).toEqual(['say """ twice']);
  });

  it('keep the breaks of a pasted text', () => {
    expect(messages('one\ntwo', '"""one\ntwo"""')).toEqual(['one\ntwo', 'one\ntwo']);
  });

  it('that are not complete can be taken as they are', () => {
    expect(messages('"""one', 'two')).toEqual(['open: one\ntwo']);
  });
});
