// What one rendering may make at most. The limits on time and memory hold for the thread that renders; those here keep
// each single value so small that reaching the memory limit ends that thread and never the process.

import { TemplateError } from './errors.ts';

/** Elements of a range(), as in the original's sandbox. */
const MAX_RANGE = 100_000;
const MAX_LIST = 2 ** 20;
/** UTF-16 units of a text, the rendered one too: more than the longest contexts hold. */
const MAX_TEXT = 2 ** 24;
/** Macros and recursive loops inside each other; the original ends at about 300. */
export const MAX_DEPTH = 200;

/** Rendering went beyond a limit. */
export class LimitError extends TemplateError {}

export function checkRange(length: number): void {
  if (length > MAX_RANGE) {
    throw new LimitError(`range() of ${length} elements, at most ${MAX_RANGE} are allowed`);
  }
}

export function checkLength(length: number): void {
  if (length > MAX_LIST)
    throw new LimitError(`a list of ${length} elements, at most ${MAX_LIST} are allowed`);
}

/** To be asked before the text is made, where its length is known by then. */
export function checkTextLength(length: number): void {
  if (length > MAX_TEXT) {
    throw new LimitError(
      `the output or a text grows to ${length} characters, at most ${MAX_TEXT} are allowed`,
    );
  }
}

/** `text` itself, where it is not too long. */
export function checkedText(text: string): string {
  checkTextLength(text.length);
  return text;
}

export function depthError(): LimitError {
  return new LimitError(
    `macros, loops or values lie too deep in each other, at most ${MAX_DEPTH} are allowed`,
  );
}
