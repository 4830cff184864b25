// Results that are there already, appended to a file beside the output as they come: a batch that is interrupted goes on
// where it was.

import { appendFileSync, closeSync, ftruncateSync, openSync, readSync, rmSync } from 'node:fs';
import * as z from 'zod';
import { ConfigError } from '../../errors.ts';
import { parseJson } from '../../util/parse-json.ts';
import { byteLines, endsInLineBreak } from './byte-lines.ts';

interface Place {
  readonly offset: number;
  readonly length: number;
}

const headSchema = z.object({ fingerprint: z.string() });
const entrySchema = z.object({ of: z.string(), result: z.unknown() });

export class BatchJournal {
  readonly #path: string;
  readonly #file: number;
  #size = 0;
  /** By the digest of the line of the batch. */
  readonly #places = new Map<string, Place>();

  /** Whose answers the results are; null where there are none. */
  #fingerprint: string | null = null;

  private constructor(path: string, file: number) {
    this.#path = path;
    this.#file = file;
  }

  /**
   * @param permissions of the file where it is not there yet.
   * @throws ConfigError where the file cannot be used, or is no journal.
   */
  static open(path: string, permissions?: number): BatchJournal {
    try {
      const journal = new BatchJournal(path, openSync(path, 'a+', permissions));
      journal.#readEntries();
      return journal;
    } catch (error) {
      throw unwritable(path, error);
    }
  }

  /**
   * Must be called before the first result is appended.
   * @param fingerprint of the model that answers from now on.
   * @throws ConfigError where there are results of another.
   */
  continueWith(fingerprint: string): void {
    if (this.#fingerprint === fingerprint) return;
    if (this.#fingerprint !== null) {
      throw new ConfigError(otherModel(this.#path, this.#fingerprint, fingerprint), { param: 'model' });
    }
    try {
      this.#write({ fingerprint });
    } catch (error) {
      throw unwritable(this.#path, error);
    }
  }

  has(digest: string): boolean {
    return this.#places.has(digest);
  }

  get numEntries(): number {
    return this.#places.size;
  }

  /** The result of a line; it must be there. */
  read(digest: string): unknown {
    const { offset, length } = this.#places.get(digest) ?? { offset: 0, length: 0 };
    const bytes = Buffer.alloc(length);
    readSync(this.#file, bytes, 0, length, offset);
    return entrySchema.parse(JSON.parse(bytes.toString())).result;
  }

  /** @throws ConfigError where the disk is full: what is there already stays. */
  append(digest: string, result: object): void {
    try {
      this.#places.set(digest, this.#write({ of: digest, result }));
    } catch (error) {
      throw unwritable(this.#path, error);
    }
  }

  /** All results are elsewhere. */
  clear(): void {
    this.#places.clear();
  }

  /** Leaves no file behind where there is nothing to go on from. */
  close(): void {
    if (this.#places.size === 0) rmSync(this.#path, { force: true });
    closeSync(this.#file);
  }

  /** What follows the last line break was cut off when the batch was. */
  #readEntries(): void {
    const lines = wholeLines(this.#file);
    const first = lines.next().value;
    if (first !== undefined) {
      const head = headSchema.safeParse(parseJson(first.toString()));
      if (!head.success) throw new ConfigError(noJournal(this.#path), { param: 'output-file' });
      this.#fingerprint = head.data.fingerprint;
      this.#size = first.length;
    }
    for (const line of lines) {
      const entry = entrySchema.safeParse(parseJson(line.toString()));
      if (entry.success) this.#places.set(entry.data.of, { offset: this.#size, length: line.length });
      this.#size += line.length;
    }
    if (this.#places.size === 0) {
      this.#fingerprint = null;
      this.#size = 0;
    }
    ftruncateSync(this.#file, this.#size);
  }

  #write(value: object): Place {
    const bytes = Buffer.from(`${JSON.stringify(value)}\n`);
    appendFileSync(this.#file, bytes);
    const place = { offset: this.#size, length: bytes.length };
    this.#size += bytes.length;
    return place;
  }
}

/** Of what follows the last line break, nobody knows whether it is whole. */
function* wholeLines(file: number): Generator<Buffer, undefined> {
  for (const line of byteLines(file)) if (endsInLineBreak(line)) yield line;
}

function otherModel(path: string, found: string, wanted: string): string {
  return (
    `${path} has answers of ${found}, not of ${wanted}, and answers of two models are not mixed: ` +
    'give the model and the options that they were begun with to go on, or remove the file to begin anew'
  );
}

function noJournal(path: string): string {
  return `${path} is needed to keep answers until all are there, and is something else: move it away, or give another --output-file`;
}

function unwritable(path: string, error: unknown): ConfigError {
  if (error instanceof ConfigError) return error;
  const why = error instanceof Error ? error.message : String(error);
  return new ConfigError(`--output-file: ${path} cannot be written: ${why}`, { param: 'output-file' });
}
