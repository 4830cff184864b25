// Which typed lines make one message: a line, lines that end with a backslash and the one after them, or everything
// between two times three quotes.

const QUOTES = '"""';

export class MessageLines {
  #lines: string[] = [];
  #isQuoted = false;

  get isOpen(): boolean {
    return this.#lines.length > 0;
  }

  /** The message that `line` completes; null where it goes on. */
  add(line: string): string | null {
    const opens = !this.isOpen && line.startsWith(QUOTES);
    if (opens) this.#isQuoted = true;
    const text = opens ? line.slice(QUOTES.length) : line;
    const mark = this.#isQuoted ? QUOTES : '\\';
    const isMarked = text.trimEnd().endsWith(mark);
    this.#lines.push(isMarked ? text.slice(0, text.lastIndexOf(mark)) : text);
    return isMarked === this.#isQuoted ? this.take() : null;
  }

  /** What has come so far, as a message; the next line begins another. */
  take(): string {
    const text = this.#lines.join('\n');
    const message = this.#isQuoted ? text.replace(/^\n|\n$/g, '') : text;
    this.#lines = [];
    this.#isQuoted = false;
    return message;
  }
}
