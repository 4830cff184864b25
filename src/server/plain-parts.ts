// The parts of an answer, whether or not its text was read for thoughts and calls.

import type { OutputDelta } from '../engine/inference-engine.ts';
import type { AnswerPart } from '../parsers/answer-parts.ts';

/** A text that is not read is content. */
export function plainParts({ parts, text }: Pick<OutputDelta, 'parts' | 'text'>): readonly AnswerPart[] {
  if (parts !== null) return parts;
  return text === '' ? [] : [{ kind: 'content', text }];
}
