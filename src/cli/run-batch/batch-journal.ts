// Results that are there already, appended to a file beside the output as they come: a batch that is interrupted goes on
// where it was.

import { closeSync, ftruncateSync, openSync, readFileSync, readSync, rmSync, writeSync } from 'node:fs';
import { z } from 'zod';
import { ConfigError } from '../../errors.ts';
import { parseJson } from '../../util/parse-json.ts';

interface Place {
  readonly offset: number;
  readonly length: number;
}

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
      const file = openSync(path, 'a+');
      const text = readFileSync(path, 'utf8');
      const journal = new BatchJournal(path, file, 0, new Map());
      journal.#readEntries(text, model);
      return journal;
    } catch (error) {
      if (error instanceof ConfigError) throw error;
      const why = error instanceof Error ? error.message : String(error);
      throw new ConfigError(`--output-file: ${path} cannot be written: ${why}`, { param: 'output-file' });
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

  append(digest: string, result: object): void {
    this.#places.set(digest, this.#write({ of: digest, result }));
  }

  close(): void {
    closeSync(this.#file);
  }

  remove(): void {
    this.close();
    rmSync(this.#path);
  }

  #readEntries(text: string, model: string): void {
    const lines = text.split('\n');
    const head = headSchema.safeParse(parseJson(lines[0] ?? ''));
    const numEntries = lines.length - 2;
    if (!head.success || numEntries < 1) {
      ftruncateSync(this.#file, 0);
      this.#write({ model });
      return;
    }
    if (head.data.model !== model) {
      throw new ConfigError(
        `${this.#path} has results of ${head.data.model}, not of ${model}: name that model to go on, or remove the file to begin anew`,
        { param: 'model' },
      );
    }
    // What follows the last line break was cut off when the batch was.
    for (const line of lines.slice(0, -1)) {
      const length = Buffer.byteLength(line) + 1;
      const entry = entrySchema.safeParse(parseJson(line));
      if (entry.success) this.#places.set(entry.data.of, { offset: this.#size, length });
      this.#size += length;
    }
    ftruncateSync(this.#file, this.#size);
  }

  #write(value: object): Place {
    const bytes = Buffer.from(`${JSON.stringify(value)}\n`);
    writeSync(this.#file, bytes);
    const place = { offset: this.#size, length: bytes.length };
    this.#size += bytes.length;
    return place;
  }
}
