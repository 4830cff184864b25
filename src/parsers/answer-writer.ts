// Where parsers write the parts of an answer. It decides about the space around them: a thought has none at its ends, and
// content has none beside a call.

import type { AnswerPart } from './answer-parts.ts';

/** Which calls an answer may have. */
export interface CallLimits {
  /** Further calls are left out. */
  readonly maxCalls: number;
  /** The answer must be calls, and has no content. */
  readonly isEnforced: boolean;
}

export class AnswerWriter {
  /** Whether the model thinks at this point. */
  isReasoning = false;
  readonly #maxCalls: number;
  readonly #hasContent: boolean;
  #parts: AnswerPart[] = [];
  #numCalls = 0;
  /** Space whose meaning what comes next decides. */
  #space = '';
  #hasReasoning = false;
  #isAfterThought = false;
  #isContentBegun = false;

  constructor({ maxCalls, isEnforced }: CallLimits) {
    this.#maxCalls = maxCalls;
    this.#hasContent = !isEnforced;
  }

  reasoning(text: string): void {
    const { ready, space } = heldSpace(this.#space + text);
    this.#space = space;
    const shown = this.#hasReasoning ? ready : ready.trimStart();
    if (shown === '') return;
    this.#hasReasoning = true;
    this.#add({ kind: 'reasoning', text: shown });
  }

  /** What comes now is no thought. */
  endReasoning(): void {
    this.isReasoning = false;
    this.#isAfterThought = true;
    this.#space = '';
  }

  content(text: string): void {
    // Nothing but calls may come: this is a piece of one, or of a mark around it, at which the answer was cut.
    if (!this.#hasContent) return;
    const { ready, space } = heldSpace(this.#space + text);
    this.#space = space;
    if (ready === '') return;
    const isFirstAfterThought = this.#isAfterThought && !this.#isContentBegun;
    this.#isContentBegun = true;
    this.#add({ kind: 'content', text: isFirstAfterThought ? ready.trimStart() : ready });
  }

  call(name: string): void {
    this.#space = '';
    this.#numCalls += 1;
    if (this.#isKept) this.#add({ kind: 'call', name });
  }

  /** Of the call that began last. */
  arguments(text: string): void {
    if (this.#isKept && text !== '') this.#add({ kind: 'arguments', text });
  }

  /** The answer is over. */
  end(): void {
    const isContent = !this.isReasoning && this.#numCalls === 0;
    if (isContent && this.#space !== '' && (this.#isContentBegun || !this.#isAfterThought)) {
      this.#add({ kind: 'content', text: this.#space });
    }
    this.#space = '';
  }

  /** The parts since the last time. */
  take(): readonly AnswerPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  get #isKept(): boolean {
    return this.#numCalls <= this.#maxCalls;
  }

  /** Pieces of one text become one part. */
  #add(part: AnswerPart): void {
    const last = this.#parts.at(-1);
    if (last !== undefined && last.kind === part.kind && 'text' in last && 'text' in part) {
      this.#parts[this.#parts.length - 1] = { ...last, text: last.text + part.text };
    } else {
      this.#parts.push(part);
    }
  }
}

function heldSpace(text: string): { ready: string; space: string } {
  const ready = text.trimEnd();
  return { ready, space: text.slice(ready.length) };
}
