// Where messages come from: a person at a terminal, or the lines of a pipe.

import { createInterface } from 'node:readline';
import { History } from './history.ts';
import { Keyboard } from './keyboard.ts';
import { editLine } from './line-editor.ts';
import { MessageLines } from './message-lines.ts';
import type { Output } from './output.ts';

interface MessageSource {
  /** Whether somebody looks on and can be spoken to. */
  readonly isPerson: boolean;
  /** The next message, never an empty one; null at the end. */
  next(): Promise<string | null>;
  /** Does `work`; a person can break it off. */
  interruptible(work: (signal: AbortSignal) => Promise<void>): Promise<void>;
  close(): void;
}

export interface SourceOptions {
  readonly historyName: string;
  /** Words that the Tab key completes. */
  readonly completions: readonly string[];
}

export function openSource(output: Output, options: SourceOptions): MessageSource {
  return process.stdin.isTTY && process.stderr.isTTY ? new Person(output, options) : new Pipe();
}

class Person implements MessageSource {
  readonly isPerson = true;
  readonly #keyboard = new Keyboard(process.stdin, process.stderr);
  readonly #output: Output;
  readonly #history: History;
  readonly #completions: readonly string[];

  constructor(output: Output, { historyName, completions }: SourceOptions) {
    this.#output = output;
    this.#history = new History(historyName);
    this.#completions = completions;
    if (this.#history.problem !== null) output.note(this.#history.problem);
  }

  async next(): Promise<string | null> {
    const lines = new MessageLines();
    let hasInterrupted = false;
    for (;;) {
      const typed = await this.#line(lines.isOpen);
      if (typed.kind === 'end') return null;
      if (typed.kind === 'line') {
        hasInterrupted = false;
        const message = lines.add(typed.text);
        if (message === null || message.trim() === '') continue;
        this.#history.add(message);
        return message;
      }
      if (!typed.wasEmpty || lines.isOpen) lines.take();
      else if (hasInterrupted) return null;
      else {
        hasInterrupted = true;
        this.#output.note('Ctrl-C once more ends, and so does Ctrl-D.');
      }
    }
  }

  #line(isContinued: boolean) {
    return editLine(this.#keyboard, process.stderr, {
      prompt: isContinued ? '... ' : this.#output.style('bold', '> '),
      history: this.#history.newestFirst,
      completions: this.#completions,
    });
  }

  interruptible(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    return this.#keyboard.interruptible(work);
  }

  close(): void {
    this.#keyboard.close();
  }
}

class Pipe implements MessageSource {
  readonly isPerson = false;
  readonly #lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

  async next(): Promise<string | null> {
    const lines = new MessageLines();
    for (;;) {
      const { value, done } = await this.#lines.next();
      const message = done ? lines.take() : lines.add(value);
      if (message !== null && message.trim() !== '') return message;
      if (done) return null;
    }
  }

  interruptible(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    return work(new AbortController().signal);
  }

  close(): void {
    process.stdin.destroy();
  }
}
