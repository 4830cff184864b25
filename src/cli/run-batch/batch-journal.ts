// Results that are there already, appended to a file beside the output as they come: a batch that is interrupted goes on
// where it was.

import { appendFileSync, closeSync, ftruncateSync, openSync, readSync, rmSync } from 'node:fs';
import * as z from 'zod';
import { ConfigError } from '../../errors.ts';
import { parseJson } from '../../util/parse-json.ts';

interface Place {
  readonly offset: number;
  readonly length: number;
}

const READ_BYTES = 1 << 20;
const LINE_BREAK = 0x0a;

const headSchema = z.object({ model: z.string() });
const entrySchema = z.object({ of: z.string(), result: z.unknown() });

export class BatchJournal {
  readonly #path: string;
  readonly #file: number;
  #size: number;
  /** By the digest of the line of the batch. */
  readonly #places: Map<string, Place>;

  private constructor(path: string, file: number, size: number, places: Map<string, Place>) {
    this.#path = path;
    this.#file = file;
    this.#size = size;
    this.#places = places;
  }

  /**
   * @param model whose answers the results are.
   * @throws ConfigError where the file cannot be used, or is of another model.
   */
  static open(path: string, model: string): BatchJournal {
    try {
      const journal = new BatchJournal(path, openSync(path, 'a+'), 0, new Map());
      journal.#readEntries(model);
      return journal;
    } catch (error) {
      throw unwritable(path, error);
    }
  }

  has(digest: string): boolean {
    return this.#places.has(digest);
  }

  get numEntries(): number {
    return this.#places.size;
  }

  /** The result of a line as JSON; it must be there. */
  read(digest: string): string {
    const { offset, length } = this.#places.get(digest) ?? { offset: 0, length: 0 };
    const bytes = Buffer.alloc(length);
    readSync(this.#file, bytes, 0, length, offset);
    return JSON.stringify(entrySchema.parse(JSON.parse(bytes.toString())).result);
  }

  /** @throws ConfigError where the disk is full: what is there already stays. */
  append(digest: string, result: object): void {
    try {
      this.#places.set(digest, this.#write({ of: digest, result }));
    } catch (error) {
      throw unwritable(this.#path, error);
    }
  }

  close(): void {
    closeSync(this.#file);
  }

  remove(): void {
    this.close();
    rmSync(this.#path);
  }

  /** What follows the last line break was cut off when the batch was. */
  #readEntries(model: string): void {
    const lines = wholeLines(this.#file);
    const first: Buffer = lines.next().value ?? Buffer.alloc(0);
    const head = headSchema.safeParse(parseJson(first.toString()));
    this.#size = first.length + 1;
    for (const line of lines) {
      const length = line.length + 1;
      const entry = entrySchema.safeParse(parseJson(line.toString()));
      if (entry.success) this.#places.set(entry.data.of, { offset: this.#size, length });
      this.#size += length;
    }
    if (!head.success || this.#places.size === 0) this.#begin(model);
    else if (head.data.model !== model)
      throw new ConfigError(otherModel(this.#path, head.data.model, model), { param: 'model' });
    else ftruncateSync(this.#file, this.#size);
  }

  #begin(model: string): void {
    ftruncateSync(this.#file, 0);
    this.#places.clear();
    this.#size = 0;
    this.#write({ model });
  }

  #write(value: object): Place {
    const bytes = Buffer.from(`${JSON.stringify(value)}\n`);
    appendFileSync(this.#file, bytes);
    const place = { offset: this.#size, length: bytes.length };
    this.#size += bytes.length;
    return place;
  }
}

/** A journal may be longer than any string. */
function* wholeLines(file: number): Generator<Buffer, undefined> {
  const chunk = Buffer.alloc(READ_BYTES);
  let rest = Buffer.alloc(0);
  let position = 0;
  for (;;) {
    const numRead = readSync(file, chunk, 0, READ_BYTES, position);
    if (numRead === 0) return;
    position += numRead;
    rest = Buffer.concat([rest, chunk.subarray(0, numRead)]);
    let begin = 0;
    for (let end = rest.indexOf(LINE_BREAK); end >= 0; end = rest.indexOf(LINE_BREAK, begin)) {
      yield rest.subarray(begin, end);
      begin = end + 1;
    }
    rest = rest.subarray(begin);
  }
}

function otherModel(path: string, found: string, wanted: string): string {
  return `${path} has results of ${found}, not of ${wanted}: name that model to go on, or remove the file to begin anew`;
}

function unwritable(path: string, error: unknown): ConfigError {
  if (error instanceof ConfigError) return error;
  const why = error instanceof Error ? error.message : String(error);
  return new ConfigError(`--output-file: ${path} cannot be written: ${why}`, { param: 'output-file' });
}
