// Reads the header of a GGUF file from its beginning: numbers and strings one after the other, in pieces, never the whole file. What a
// header claims is held against the bytes that are there before memory is taken for it.

import { fstatSync, readSync } from 'node:fs';
import { ModelLoadError } from '../../../errors.ts';
import { shortestDecimal } from '../../../util/shortest-decimal.ts';

/** Of the whole header: the largest published vocabularies take a fifth. */
const MOST_HEADER_BYTES = 128 * 2 ** 20;
/** No name has a tenth of it. */
const MOST_NAME_BYTES = 1024;
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
    return this.#take(1).readUInt8();
  }
  i8(): number {
    return this.#take(1).readInt8();
  }
  u16(): number {
    return this.#take(2).readUInt16LE();
  }
  i16(): number {
    return this.#take(2).readInt16LE();
  }
  u32(): number {
    return this.#take(4).readUInt32LE();
  }
  i32(): number {
    return this.#take(4).readInt32LE();
  }
  /** Beyond 2^53 not to the last digit: too large for whatever it counts. */
  u64(): number {
    return Number(this.#take(8).readBigUInt64LE());
  }
  i64(): number {
    return Number(this.#take(8).readBigInt64LE());
  }
  f64(): number {
    return this.#take(8).readDoubleLE();
  }

  /** As a person wrote it: 0.000001, and not the nearest number of f32 to all its digits. */
  f32(): number {
    return shortestDecimal(this.#take(4).readFloatLE());
  }

  /** A key, or the name of a tensor. */
  name(what: string): string {
    const bytes = this.#length(what, 1);
    if (bytes <= MOST_NAME_BYTES) return this.#take(bytes).toString('utf8');
    throw new ModelLoadError(
      `${this.#path}: ${what} at byte ${this.position - 8} is ${bytes}, expected at most ${MOST_NAME_BYTES}; fetch the file again`,
    );
  }

  string(what: string): string {
    return this.#take(this.#length(what, 1)).toString('utf8');
  }

  /** A number of things that take at least `leastBytes` each. */
  count(what: string, leastBytes: number): number {
    return this.#length(what, leastBytes);
  }

  bytes(length: number): Buffer {
    return this.#take(length);
  }

  advance(bytes: number): void {
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

  #take(bytes: number): Buffer {
    this.#expect(bytes);
    if (this.#at + bytes > this.#piece.length) this.#fill(bytes);
    this.#at += bytes;
    return this.#piece.subarray(this.#at - bytes, this.#at);
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
        throw new ModelLoadError(
          `${this.#path} ends inside its header, at byte ${start + done}; fetch it again`,
        );
      }
      done += got;
    }
    this.#piece = piece;
    this.#start = start;
    this.#at = 0;
  }
}
