// Reads one answer as it comes. Its parts follow from the text as a whole, wherever the pieces end.

import type { AnswerPart } from './answer-parts.ts';
import { AnswerWriter, type CallLimits } from './answer-writer.ts';
import { type Reading, TextReader } from './text-reader.ts';

export class AnswerParser {
  readonly #reader = new TextReader();
  readonly #writer: AnswerWriter;
  readonly #reading: Reading;

  /** @param read reads to the end of the answer. */
  constructor(limits: CallLimits, read: (reader: TextReader, writer: AnswerWriter) => Reading) {
    this.#writer = new AnswerWriter(limits);
    this.#reading = read(this.#reader, this.#writer);
    // To the first wait for text: from then on it is known whether the answer begins with a thought.
    this.#reading.next();
  }

  /** Whether the model thinks at the end of the text so far. */
  get isReasoning(): boolean {
    return this.#writer.isReasoning;
  }

  /** Whether the answer, now that it is over, was cut off within its last call. */
  get isCallCut(): boolean {
    return this.#writer.isCallCut;
  }

  /** The parts that `text` completes. */
  push(text: string): readonly AnswerPart[] {
    this.#reader.add(text);
    this.#reading.next();
    return this.#writer.take();
  }

  /**
   * What was held back.
   * @param isCut something else than the model ended the answer: the arguments of a call that is not over stay open.
   */
  finish(isCut: boolean): readonly AnswerPart[] {
    this.#reader.end();
    this.#writer.isCut = isCut;
    this.#reading.next();
    this.#writer.end();
    return this.#writer.take();
  }
}
