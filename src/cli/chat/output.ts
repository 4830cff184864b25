// Where the words of svc chat and svc complete go: answers to stdout, everything else to stderr; wrapped and coloured
// only where a person looks at them.

import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import { WordWrap } from './word-wrap.ts';

type Style = Parameters<typeof styleText>[0];

interface AnswerWriter {
  write(text: string): void;
  /** Ends the line, whether or not the answer is complete. */
  end(): void;
}

/** A terminal that does not tell has as many columns as the first ones had. */
const USUAL_COLUMNS = 80;

export class Output {
  /** hasColors heeds NO_COLOR and its like. */
  readonly #hasColors = process.stderr.isTTY && process.stderr.hasColors();

  /** About the conversation, not part of it. */
  note(text: string): void {
    process.stderr.write(`${this.style('dim', wrapped(text, process.stderr))}\n`);
  }

  aside(text: string): void {
    if (process.stderr.isTTY) this.note(text);
  }

  error(message: string): void {
    const text = wrapped(`error: ${message}`, process.stderr);
    process.stderr.write(`${text.replace(/^error:/, (word) => this.style('red', word))}\n`);
  }

  style(style: Style, text: string): string {
    return this.#hasColors ? styleText(style, text) : text;
  }

  answer(): AnswerWriter {
    const write = (text: string): void => void process.stdout.write(text);
    if (!process.stdout.isTTY) return { write, end: () => write('\n') };
    const wrap = new WordWrap(() => columns(process.stdout));
    return {
      write: (text) => write(wrap.push(text)),
      end: () => write(`${wrap.end()}\n`),
    };
  }
}

function wrapped(text: string, stream: WriteStream): string {
  if (!stream.isTTY) return text;
  const wrap = new WordWrap(() => columns(stream));
  return wrap.push(text) + wrap.end();
}

function columns(stream: WriteStream): number {
  return stream.columns || USUAL_COLUMNS;
}
