// Breaks text between words at the edge of the terminal while it arrives: only the word at the end of a line, which may
// still have to move to the next one, is held back.

import stringWidth from 'string-width';

const TAB_STOP = 8;
const graphemes = new Intl.Segmenter();

export class WordWrap {
  readonly #columns: () => number;
  /** Where the cursor is, from 0. */
  #column = 0;
  /** White space that was not written yet: at a break it is dropped, and so it is around the whole text. */
  #gap = '';
  /** The beginning of a word that still fits into the line. */
  #word = '';
  /** The word that comes has its place: more of it is written at once. */
  #isPlaced = false;
  #isEmpty = true;
  /** The last character, where more of it may come: accents and the parts of an emoji come one by one. */
  #last = '';

  /** @param columns the width of the terminal, which may change. */
  constructor(columns: () => number) {
    this.#columns = columns;
  }

  /** What to write, now that `text` has come. */
  push(text: string): string {
    // A model must not steer the terminal.
    const printable = text.replace(/(?![\n\t])\p{Cc}/gu, '');
    const characters = Array.from(graphemes.segment(this.#last + printable), ({ segment }) => segment);
    this.#last = isOpenEnded(characters.at(-1)) ? (characters.pop() ?? '') : '';
    return characters.map((character) => this.#add(character)).join('');
  }

  end(): string {
    const last = this.#last;
    this.#last = '';
    return (last === '' ? '' : this.#add(last)) + this.#place();
  }

  #add(character: string): string {
    if (/^[ \t\n]$/.test(character)) {
      const word = this.#place();
      this.#isPlaced = false;
      if (!this.#isEmpty) this.#gap += character;
      return word;
    }
    if (stringWidth(character) > 1) return this.#addWide(character);
    if (this.#isPlaced) return this.#put(character);
    this.#word += character;
    return this.#isSettled() ? this.#place() : '';
  }

  /** Scripts of wide characters write no spaces: a line may break on either side of each. */
  #addWide(character: string): string {
    const word = this.#place();
    this.#word = character;
    const placed = word + this.#place();
    this.#isPlaced = false;
    return placed;
  }

  /** Nothing that follows can change where the word begins. */
  #isSettled(): boolean {
    return this.#column === 0 || this.#gap.includes('\n') || !this.#fits();
  }

  #fits(): boolean {
    return this.#column + this.#gapWidth() + stringWidth(this.#word) <= this.#columns();
  }

  #place(): string {
    if (this.#word === '') return '';
    const characters = Array.from(graphemes.segment(this.#word), ({ segment }) => segment);
    const space = this.#space();
    this.#word = '';
    this.#gap = '';
    this.#isPlaced = true;
    this.#isEmpty = false;
    return space + characters.map((character) => this.#put(character)).join('');
  }

  #space(): string {
    if (!this.#gap.includes('\n') && this.#column > 0 && !this.#fits()) {
      this.#column = 0;
      return '\n';
    }
    const width = this.#gapWidth();
    this.#column = this.#gap.includes('\n') ? width : this.#column + width;
    return this.#gap;
  }

  /** Columns of the white space; after a line break, of what follows the last one. */
  #gapWidth(): number {
    const from = this.#gap.includes('\n') ? 0 : this.#column;
    let column = from;
    for (const character of this.#gap.slice(this.#gap.lastIndexOf('\n') + 1))
      column += character === '\t' ? TAB_STOP - (column % TAB_STOP) : stringWidth(character);
    return column - from;
  }

  /** A word longer than a line is broken by the terminal itself. */
  #put(character: string): string {
    const width = stringWidth(character);
    this.#column = this.#column + width > this.#columns() ? width : this.#column + width;
    return character;
  }
}

function isOpenEnded(character: string | undefined): boolean {
  return character !== undefined && (character.codePointAt(0) ?? 0) > 0x7f;
}
