// The packed cache: a folder that keeps weights as kernels read them, so that the next start need not pack them. An entry
// is one file, named by its key: the model, the state of each of its files, the formats, the version of svc, which decides what
// is asked of them in which order, and the build of the kernels. Who can write into the folder decides what the model computes, as with the folder of the model.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { PackedWeights } from '../../ops/packed-weights.ts';
import { version } from '../../util/version.ts';

interface PackedCacheOptions {
  readonly folder: string;
  /** Of all entries together. */
  readonly maxBytes: number;
}

/** What the packed weights of one load follow from. */
interface PackedModel {
  readonly fingerprint: string;
  /** What each file of weights is now, as `Checkpoint.fileStates` has it. */
  readonly fileStates: readonly string[];
  /** What is computed in, and what products keep their weights in. */
  readonly formats: readonly string[];
}

const ENTRY = '.packed';
const UNFINISHED = '.packed.tmp';
/** A process that has not written for so long is dead. */
const UNFINISHED_MS = 600_000;

/** The entry of one load. */
export class PackedCache {
  readonly #options: PackedCacheOptions;
  readonly #weights: PackedWeights;
  readonly #warn: (message: string) => void;
  #entry: { readonly path: string; readonly key: string } | null = null;
  #hasAllWeights = false;

  constructor(options: PackedCacheOptions, weights: PackedWeights, onWarning: (message: string) => void) {
    this.#options = options;
    this.#weights = weights;
    this.#warn = onWarning;
  }

  /** Whether all weights of the load came from the cache. */
  get hasAllWeights(): boolean {
    return this.#hasAllWeights;
  }

  /** From now on weights come from the model's entry, where there is a whole one. */
  open({ fingerprint, fileStates, formats }: PackedModel): void {
    const files = fileStates.map((state) => `file ${state}\n`).join('');
    const code = `svc ${version()}\nlayout ${this.#weights.layout}\n`;
    const key = `model ${fingerprint}\n${files}formats ${formats.join(' ')}\n${code}`;
    const name = createHash('sha256').update(key).digest('hex').slice(0, 32);
    const path = join(this.#options.folder, `${name}${ENTRY}`);
    this.#entry = { path, key };
    if (!existsSync(path)) return;
    try {
      this.#weights.open(path, key);
      this.#hasAllWeights = true;
    } catch (error) {
      this.#warnOfDefect(messageOf(error));
    }
  }

  /** After the last weight of a model that can be served. */
  close(): void {
    const defect = this.#weights.close();
    this.#hasAllWeights &&= defect === null;
    if (defect !== null) this.#warnOfDefect(defect);
  }

  /** Marks the entry as used, or writes it while the model is served already. */
  async keep(): Promise<void> {
    if (this.#entry === null) return;
    const { path, key } = this.#entry;
    if (this.#hasAllWeights) return touch(path);
    try {
      makeFolder(this.#options.folder);
      if (this.#makeRoom(path)) await this.#weights.save(path, key);
    } catch (error) {
      this.#warn(`packed cache: ${messageOf(error)}; the next start packs the weights again`);
    }
  }

  /** Removes the entries that were not used for the longest time. False where the weights are larger than the cache. */
  #makeRoom(path: string): boolean {
    const { folder, maxBytes } = this.#options;
    const needed = this.#weights.byteLength;
    if (needed > maxBytes) {
      this.#warn(
        `packed cache: the packed weights take ${needed} bytes, --packed-cache-size allows ${maxBytes}: they are not kept`,
      );
      return false;
    }
    const entries = listFiles(folder).filter((file) => file.path !== path);
    for (const file of entries.filter(isAbandoned)) rmSync(file.path, { force: true });
    const kept = entries.filter((file) => file.path.endsWith(ENTRY)).sort((a, b) => a.usedAt - b.usedAt);
    let total = kept.reduce((sum, file) => sum + file.bytes, 0);
    for (const file of kept) {
      if (total + needed <= maxBytes) break;
      rmSync(file.path, { force: true });
      total -= file.bytes;
    }
    return true;
  }

  #warnOfDefect(defect: string): void {
    this.#warn(`packed cache: ${defect}; the weights are packed again`);
  }
}

/**
 * One folder after the other: node's own `recursive` never returns where a file system has no room for new folders and says so
 * by ENOENT, as /proc does.
 */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another process may have made it meanwhile.
    if (!existsSync(folder)) throw error;
  }
}

interface CacheFile {
  readonly path: string;
  readonly bytes: number;
  /** Milliseconds; a file that is being written is used all the time. */
  readonly usedAt: number;
}

function listFiles(folder: string): CacheFile[] {
  const names = readdirSync(folder).filter((name) => name.endsWith(ENTRY) || name.endsWith(UNFINISHED));
  return names.flatMap((name) => {
    const path = join(folder, name);
    const status = statSync(path, { throwIfNoEntry: false });
    return status === undefined ? [] : [{ path, bytes: status.size, usedAt: status.mtimeMs }];
  });
}

function isAbandoned({ path, usedAt }: CacheFile): boolean {
  return path.endsWith(UNFINISHED) && usedAt < Date.now() - UNFINISHED_MS;
}

/** In a folder that cannot be written to, the order of use is that of writing. */
function touch(path: string): void {
  const now = new Date();
  try {
    utimesSync(path, now, now);
  } catch {
    // Ignore: the entry serves all the same.
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
