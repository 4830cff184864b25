// Where parsers write the parts of an answer. It decides about the space around them: a thought has none at its ends, and
// content has none beside a call.

import { parseJson } from '../util/parse-json.ts';
import type { AnswerPart } from './answer-parts.ts';
import { CustomInput } from './custom-tools.ts';

/** Which calls an answer may have. */
export interface CallLimits {
  /** Further calls are left out. */
  readonly maxCalls: number;
  /** The answer must be calls, and has no content. */
  readonly isEnforced: boolean;
  /** Tools that are called with a text. */
  readonly customNames: ReadonlySet<string>;
}

export class AnswerWriter {
  /** Whether the model thinks at this point. */
  isReasoning = false;
  /** The answer was cut off here: what follows only from the end of its text is no part of arguments. */
  isCut = false;
  /** Whether it was before the arguments of the last call ended. */
  isCallCut = false;
  readonly #maxCalls: number;
  readonly #hasContent: boolean;
  readonly #customNames: ReadonlySet<string>;
  /** Of the call that began last; null where it is no custom tool's. */
  #input: CustomInput | null = null;
  /** What the model has written as arguments of the call that nothing has followed yet; null without one. */
  #arguments: string | null = null;
  #parts: AnswerPart[] = [];
  #numCalls = 0;
  /** Space whose meaning what comes next decides. */
  #space = '';
  #hasReasoning = false;
  #isAfterThought = false;
  #isContentBegun = false;

  constructor({ maxCalls, isEnforced, customNames }: CallLimits) {
    this.#maxCalls = maxCalls;
    this.#customNames = customNames;
    this.#hasContent = !isEnforced;
  }

  reasoning(text: string): void {
    const { ready, space } = heldSpace(this.#space + text);
    this.#space = space;
    const shown = this.#hasReasoning ? ready : ready.trimStart();
    if (shown === '') return;
    this.#endCall();
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
    this.#endCall();
    const isFirstAfterThought = this.#isAfterThought && !this.#isContentBegun;
    this.#isContentBegun = true;
    this.#add({ kind: 'content', text: isFirstAfterThought ? ready.trimStart() : ready });
  }

  call(name: string): void {
    this.#endCall();
    this.#space = '';
    this.#numCalls += 1;
    if (!this.#isKept) return;
    const isCustom = this.#customNames.has(name);
    this.#add({ kind: 'call', name, ...(isCustom && { isCustom }) });
    this.#arguments = '';
    if (isCustom) this.#input = new CustomInput((text) => this.#add({ kind: 'arguments', text }));
  }

  /** Of the call that began last. */
  arguments(text: string): void {
    if (!this.#isKept || this.isCut || text === '') return;
    this.#arguments += text;
    if (this.#input === null) this.#add({ kind: 'arguments', text });
    else this.#input.push(text);
  }

  /** The answer is over. */
  end(): void {
    this.isCallCut = this.isCut && this.#arguments !== null && parseJson(this.#arguments) === undefined;
    this.#endCall();
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

  /** Before anything else is written. */
  #endCall(): void {
    this.#input?.end();
    this.#input = null;
    this.#arguments = null;
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
