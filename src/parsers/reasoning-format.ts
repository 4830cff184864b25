// What a format of thoughts is: how the thought at the beginning of an answer is told from the answer itself.

import type { AnswerWriter } from './answer-writer.ts';
import type { Reading, TextReader } from './text-reader.ts';

/** What a thought stands between. */
export interface ThoughtTags {
  readonly begin: string;
  readonly end: string;
  /** Comes next, before what is said; left out, space. */
  readonly after?: string;
}

export interface ReasoningFormat {
  /** As the model was trained to write it. */
  readonly tags: ThoughtTags;
  /** Texts of special tokens that it is read by: they must not be left out of the text. */
  readonly tokens: readonly string[];
  /** Whether the answer goes on with a thought, since `prompt` has begun one. */
  isOpen(prompt: string): boolean;
  /** Whether the answer has no thought, since `prompt` has ended it. */
  isOver(prompt: string): boolean;
  /** Reads the thought, if there is one; what comes after it is left. */
  read(reader: TextReader, writer: AnswerWriter, isOpen: boolean): Reading;
}

interface TagRules {
  /** Other spellings come after the usual one. */
  readonly begins: readonly [string, ...string[]];
  readonly ends: readonly [string, ...string[]];
  /** The answer begins with a thought, though nothing says so, unless the prompt has ended it. */
  readonly isImplied?: boolean;
  /** Begins a call before which the model leaves out the end at times. */
  readonly cutBy?: string;
  /** Stands around what is said after the thought, and is no part of it. */
  readonly answerTags?: ThoughtTags;
}

export function tagged({ begins, ends, isImplied = false, cutBy, answerTags }: TagRules): ReasoningFormat {
  const isOver = (prompt: string): boolean => ends.some((end) => prompt.trimEnd().endsWith(end));
  return {
    isOver,
    tags: { begin: begins[0], end: ends[0] },
    tokens: [...begins, ...ends],
    isOpen(prompt) {
      const text = prompt.trimEnd();
      return begins.some((begin) => text.endsWith(begin)) || (isImplied && !isOver(text));
    },
    *read(reader, writer, isOpen) {
      writer.isReasoning = isOpen;
      const isBegun = yield* takeFirst(reader, begins);
      if (!isOpen && !isBegun) return;
      writer.isReasoning = true;
      const stops = cutBy === undefined ? ends : [...ends, cutBy];
      const end = yield* reader.copyUpTo(stops, (text) => writer.reasoning(text));
      if (end === null) return;
      writer.endReasoning();
      if (end === cutBy) return;
      reader.advance(end.length);
      if (answerTags !== undefined && (yield* takeFirst(reader, [answerTags.begin]))) {
        yield* reader.copyUntil([answerTags.end], (text) => writer.content(text));
      }
    },
  };
}

/** Reads one of `words`, and the space before it; nothing where there is none. */
function* takeFirst(reader: TextReader, words: readonly string[]): Reading<boolean> {
  const found = yield* reader.attempt(function* () {
    yield* reader.advanceOverSpace();
    for (const word of words) if (yield* reader.takeIf(word)) return true;
    return null;
  });
  return found !== null;
}
