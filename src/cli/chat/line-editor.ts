// One line typed at a prompt, with the editing keys and the history that Node's readline knows. A pasted text of several
// lines stays one line to edit, with its breaks in it.

import { createInterface, type Interface } from 'node:readline';
import { PassThrough } from 'node:stream';
import type { WriteStream } from 'node:tty';
import { isInterrupt, type Keyboard, type Typed } from './keyboard.ts';

type TypedLine =
  | { readonly kind: 'line'; readonly text: string }
  /** Ctrl-C; the line was empty or not. */
  | { readonly kind: 'interrupt'; readonly wasEmpty: boolean }
  | { readonly kind: 'end' };

interface Prompt {
  readonly prompt: string;
  readonly history: readonly string[];
  /** What a word at the start of the line may become. */
  readonly completions: readonly string[];
}

export function editLine(keyboard: Keyboard, output: WriteStream, prompt: Prompt): Promise<TypedLine> {
  return new Promise((resolve) => {
    const editor = new LineEditor(output, prompt, (line) => {
      keyboard.unlisten();
      editor.close();
      resolve(line);
    });
    keyboard.listen(editor);
  });
}

class LineEditor {
  readonly #output: WriteStream;
  /** Readline reads from here the keys that are meant for it. */
  readonly #keys = new PassThrough();
  readonly #readline: Interface;
  readonly #done: (line: TypedLine) => void;
  #isDone = false;

  constructor(
    output: WriteStream,
    { prompt, history, completions }: Prompt,
    done: (line: TypedLine) => void,
  ) {
    this.#output = output;
    this.#done = done;
    this.#readline = createInterface({
      input: this.#keys,
      output,
      terminal: true,
      prompt,
      history: [...history],
      completer: (line: string) => [completions.filter((word) => word.startsWith(line)), line],
    });
    this.#readline.on('close', () => {
      if (!this.#isDone) output.write('\n');
      this.#finish({ kind: 'end' });
    });
    this.#readline.prompt();
  }

  typed(typed: Typed): void {
    if (isInterrupt(typed)) this.#interrupt();
    else if (typed.kind === 'paste') this.#insert(pastedText(typed.text));
    else if (typed.key.name === 'return' && typed.key.meta) this.#insert('\n');
    // Readline's own event turns the order of lines around, from Node 24 on.
    else if (typed.key.name === 'return' || typed.key.name === 'enter') this.#enter();
    else this.#keys.emit('keypress', typed.text, typed.key);
  }

  resumed(): void {
    this.#readline.prompt(true);
  }

  close(): void {
    this.#readline.close();
  }

  #enter(): void {
    this.#finish({ kind: 'line', text: this.#leave('\n') });
  }

  #interrupt(): void {
    this.#finish({ kind: 'interrupt', wasEmpty: this.#leave('^C\n') === '' });
  }

  /** The text so far, behind which `end` is written. */
  #leave(end: string): string {
    const { line } = this.#readline;
    this.#edit(line, line.length);
    this.#output.write(end);
    return line;
  }

  #insert(text: string): void {
    const { line, cursor } = this.#readline;
    this.#edit(line.slice(0, cursor) + text + line.slice(cursor), cursor + text.length);
  }

  /** Typed into readline, a break would end the line. */
  #edit(line: string, cursor: number): void {
    Object.assign(this.#readline, { line, cursor });
    this.#readline.prompt(true);
  }

  #finish(line: TypedLine): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#done(line);
  }
}

/** Without the break at its end, which is sent by the person, and without what would steer the terminal. */
function pastedText(text: string): string {
  return text
    .replace(/\r\n?/g, '\n')
    .replace(/\n+$/, '')
    .replace(/(?![\n\t])\p{Cc}/gu, '');
}
