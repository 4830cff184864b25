// The cache of the alternative hub's tools: models/<org>--<name>/snapshots/<revision>/ with the files themselves. Files there are
// replaced when the hub has others, so each one that was verified is noted with its hash, size and time.

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { bytesIn } from './file-states.ts';
import type { CachedModel, ModelCache } from './model-cache.ts';
import type { RemoteFile } from './remote-file.ts';

const noted = z.record(z.string(), z.object({ hash: z.string(), state: z.string() }));
type Notes = z.output<typeof noted>;

export class PlainCache implements ModelCache {
  readonly folder: string;
  readonly lock: string;
  readonly #snapshot: string;
  readonly #notes: string;
  readonly #older: readonly string[];
  #writing: Promise<void> = Promise.resolve();

  /** @param root that all models share. */
  constructor(root: string, model: string, revision: string) {
    const name = model.replaceAll('/', '--');
    this.folder = join(root, 'models', name);
    this.lock = lockOf(root, name);
    this.#snapshot = join(this.folder, 'snapshots', revision);
    this.#notes = join(this.folder, `.svc-${encodeURIComponent(revision)}.json`);
    this.#older = olderFolders(root, model);
  }

  /** Named by the revision, whatever state of it that is. */
  snapshot(): string {
    return this.#snapshot;
  }

  async holds(file: RemoteFile): Promise<boolean> {
    const path = this.target(file);
    const state = await stateOf(path);
    if (state === null || state.size !== file.size) return false;
    const note = (await this.#readNotes())[file.path];
    if (note?.state === state.text) return note.hash === file.hash.hex;
    // Another tool fetched it.
    if ((await sha256Of(path)) !== file.hash.hex) return false;
    // Ignore: in a folder that cannot be written to, it is looked at again the next time.
    await this.publish(file).catch(() => {});
    return true;
  }

  hasContent(file: RemoteFile): Promise<boolean> {
    return this.holds(file);
  }

  target(file: RemoteFile): string {
    return join(this.#snapshot, file.path);
  }

  publish(file: RemoteFile): Promise<void> {
    // One after the other: each adds to what is there.
    const writing = this.#writing.then(() => this.#note(file));
    this.#writing = writing.catch(() => {});
    return writing;
  }

  async finish(): Promise<void> {}

  async latest(): Promise<readonly string[]> {
    return [this.#snapshot, ...this.#older];
  }

  async #note(file: RemoteFile): Promise<void> {
    const state = await stateOf(this.target(file));
    if (state === null) return;
    const notes = { ...(await this.#readNotes()), [file.path]: { hash: file.hash.hex, state: state.text } };
    await mkdir(dirname(this.#notes), { recursive: true });
    await writeFile(`${this.#notes}.${process.pid}`, JSON.stringify(notes));
    await rename(`${this.#notes}.${process.pid}`, this.#notes);
  }

  /** Without notes all files are looked at again. */
  async #readNotes(): Promise<Notes> {
    const text = await readFile(this.#notes, 'utf8').catch(() => '{}');
    try {
      return noted.parse(JSON.parse(text));
    } catch {
      return {};
    }
  }
}

/** Where earlier versions of the hub's tools kept the only copy of a model; they wrote ___ for a dot. */
function olderFolders(root: string, model: string): string[] {
  const escaped = model.replaceAll('.', '___');
  return ['models', join('hub', 'models'), 'hub', ''].flatMap((folder) =>
    [...new Set([model, escaped])].map((name) => join(root, folder, name)),
  );
}

function lockOf(root: string, name: string): string {
  return join(root, '.lock', `model_${name}.svc.lock`);
}

async function stateOf(path: string): Promise<{ size: number; text: string } | null> {
  const status = await stat(path, { bigint: true }).catch(() => null);
  return status && { size: Number(status.size), text: `${status.ino} ${status.size} ${status.mtimeNs}` };
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk);
  return hash.digest('hex');
}

/** The models of a cache folder, whichever tool fetched them. */
export async function plainCaches(root: string): Promise<CachedModel[]> {
  const names = await readdir(join(root, 'models')).catch(() => []);
  const models = names.filter((name) => name.includes('--')).sort();
  return Promise.all(
    models.map(async (name) => {
      const path = join(root, 'models', name);
      return {
        name: name.replaceAll('--', '/'),
        revisions: (await readdir(join(path, 'snapshots')).catch(() => [])).sort(),
        bytes: await bytesIn(path),
        path,
        lock: lockOf(root, name),
      };
    }),
  );
}
