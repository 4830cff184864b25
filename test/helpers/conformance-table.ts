// A table of what was compared with the protocol, printed at the end of a test file.

export class ConformanceTable {
  readonly #title: string;
  readonly #rows: (readonly [what: string, how: string, result: string])[] = [];

  constructor(title: string) {
    this.#title = title;
  }

  /** To be called where it has passed: what fails is told by its test. */
  add(what: string, how: string, result: string): void {
    this.#rows.push([what, how, result]);
  }

  print(): void {
    const width = (column: 0 | 1): number => Math.max(0, ...this.#rows.map((row) => row[column].length));
    const [first, second] = [width(0), width(1)];
    const lines = this.#rows.map(
      ([what, how, result]) => `${what.padEnd(first)}  ${how.padEnd(second)}  ${result}`,
    );
    console.log(`${this.#title}\n${lines.join('\n')}`);
  }
}
