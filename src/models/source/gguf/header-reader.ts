// Reads the header of a GGUF file from its beginning: numbers and strings one after the other, in pieces, never the whole file. What a
// header claims is held against the bytes that are there before memory is taken for it.

import { fstatSync, readSync } from 'node:fs';
import { ModelLoadError } from '../../../errors.ts';

/** Of the whole header: the largest published vocabularies take a fifth. */
const MOST_HEADER_BYTES = 128 * 2 ** 20;
/** Read at once. */
const PIECE_BYTES = 1 << 16;

export class HeaderReader {
  readonly fileBytes: number;
  readonly #path: string;
  readonly #file: number;
  readonly #end: number;
  #piece = Buffer.alloc(0);
  /** Of the piece in the file. */
  #start: number;
  /** Within the piece. */
  #at = 0;

  /** @param start byte of the file to begin at */
  constructor(path: string, file: number, start = 0) {
    this.#path = path;
    this.#file = file;
    this.#start = start;
    this.fileBytes = fstatSync(file).size;
    this.#end = Math.min(this.fileBytes, MOST_HEADER_BYTES);
  }

  /** Bytes from the beginning of the file. */
  get position(): number {
    return this.#start + this.#at;
  }

  u8(): number {
    return this.#piece.readUInt8(this.#take(1));
  }
  i8(): number {
    return this.#piece.readInt8(this.#take(1));
  }
  u16(): number {
    return this.#piece.readUInt16LE(this.#take(2));
  }
  i16(): number {
    return this.#piece.readInt16LE(this.#take(2));
  }
  u32(): number {
    return this.#piece.readUInt32LE(this.#take(4));
  }
  i32(): number {
    return this.#piece.readInt32LE(this.#take(4));
  }
  /** Beyond 2^53 not to the last digit: too large for whatever it counts. */
  u64(): number {
    return Number(this.#piece.readBigUInt64LE(this.#take(8)));
  }
  i64(): number {
    return Number(this.#piece.readBigInt64LE(this.#take(8)));
  }
  f64(): number {
    return this.#piece.readDoubleLE(this.#take(8));
  }

  /** As a person wrote it: 0.000001, and not the nearest number of f32 to all its digits. */
  f32(): number {
    return shortest(this.#piece.readFloatLE(this.#take(4)));
  }

  string(what: string): string {
    const bytes = this.#length(what, 1);
    const at = this.#take(bytes);
    return this.#piece.toString('utf8', at, at + bytes);
  }

  /** A number of things that take at least `leastBytes` each. */
  count(what: string, leastBytes: number): number {
    return this.#length(what, leastBytes);
  }

  bytes(length: number): Buffer {
    const at = this.#take(length);
    return this.#piece.subarray(at, at + length);
  }

  skip(bytes: number): void {
    this.#expect(bytes);
    if (this.#at + bytes <= this.#piece.length) {
      this.#at += bytes;
      return;
    }
    this.#start = this.position + bytes;
    this.#piece = Buffer.alloc(0);
    this.#at = 0;
  }

  #length(what: string, leastBytes: number): number {
    const count = this.u64();
    const room = this.#end - this.position;
    if (count * leastBytes <= room) return count;
    throw new ModelLoadError(
      `${this.#path}: ${what} at byte ${this.position - 8} claims ${count}, for which the header has no room ` +
        `(${room} bytes are left); the file is damaged or cut off, fetch it again`,
    );
  }

  /** Where the next `bytes` are in the piece, which holds them all. */
  #take(bytes: number): number {
    this.#expect(bytes);
    if (this.#at + bytes > this.#piece.length) this.#fill(bytes);
    const at = this.#at;
    this.#at += bytes;
    return at;
  }

  #expect(bytes: number): void {
    if (this.position + bytes <= this.#end) return;
    throw new ModelLoadError(
      this.#end < this.fileBytes
        ? `${this.#path}: the header is larger than ${MOST_HEADER_BYTES} bytes; the file is damaged, fetch it again`
        : `${this.#path} ends inside its header, at byte ${this.fileBytes}; it is cut off, fetch it again`,
    );
  }

  #fill(bytes: number): void {
    const start = this.position;
    const piece = Buffer.alloc(Math.min(Math.max(bytes, PIECE_BYTES), this.#end - start));
    for (let done = 0; done < piece.length; ) {
      const got = readSync(this.#file, piece, done, piece.length - done, start + done);
      if (got === 0) {
        throw new ModelLoadError(`${this.#path} ends inside its header, at byte ${start + done}; fetch it again`);
      }
      done += got;
    }
    this.#piece = piece;
    this.#start = start;
    this.#at = 0;
  }
}

/** The shortest decimal number that is `value` in f32. */
function shortest(value: number): number {
  for (let digits = 1; digits < 9; digits += 1) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.fround(rounded) === value) return rounded;
  }
  return value;
}
