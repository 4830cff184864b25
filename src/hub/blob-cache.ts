// The cache of the main hub's tools: blobs/ by hash, snapshots/<commit>/ of links to them, refs/<branch> with the commit that the
// branch pointed to last.

import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { bytesIn, sizeOf } from './file-states.ts';
import type { CachedModel, ModelCache } from './model-cache.ts';
import type { RemoteFile } from './remote-file.ts';

const PREFIX = 'models--';

export class BlobCache implements ModelCache {
  readonly folder: string;
  readonly lock: string;
  readonly #ref: string;

  /** @param root that all models share. */
  constructor(root: string, model: string, revision: string) {
    const name = PREFIX + model.replaceAll('/', '--');
    this.folder = join(root, name);
    this.lock = lockOf(root, name);
    this.#ref = join(this.folder, 'refs', revision);
  }

  snapshot(commit: string): string {
    return join(this.folder, 'snapshots', commit);
  }

  /** By its size: a disk that was full, or another tool, may have cut it off. */
  async holds(file: RemoteFile, commit: string): Promise<boolean> {
    return (await sizeOf(join(this.snapshot(commit), file.path))) === file.size;
  }

  /** Its name is its hash. */
  async hasContent(file: RemoteFile): Promise<boolean> {
    return (await sizeOf(this.target(file))) === file.size;
  }

  target(file: RemoteFile): string {
    return join(this.folder, 'blobs', file.hash.hex);
  }

  /** The link is relative so that the cache may move. What a killed process has left of it is replaced. */
  async publish(file: RemoteFile, commit: string): Promise<void> {
    const path = join(this.snapshot(commit), file.path);
    const fresh = `${path}.new`;
    await mkdir(dirname(path), { recursive: true });
    await rm(fresh, { force: true });
    await symlink(relative(dirname(path), this.target(file)), fresh);
    await rename(fresh, path);
  }

  async finish(commit: string): Promise<void> {
    if ((await readFile(this.#ref, 'utf8').catch(() => null)) === commit) return;
    await mkdir(dirname(this.#ref), { recursive: true });
    const fresh = join(dirname(this.#ref), `.${basename(this.#ref)}.new`);
    await writeFile(fresh, commit);
    await rename(fresh, this.#ref);
  }

  /** A commit names its own snapshot, as other tools leave it. */
  async latest(): Promise<readonly string[]> {
    const commit = await readFile(this.#ref, 'utf8').catch(() => basename(this.#ref));
    return [this.snapshot(commit.trim())];
  }
}

function lockOf(root: string, name: string): string {
  return join(root, '.locks', name, 'svc.lock');
}

/** The models of a cache folder, whichever tool fetched them. */
export async function blobCaches(root: string): Promise<CachedModel[]> {
  const names = await readdir(root).catch(() => []);
  const models = names.filter((name) => name.startsWith(PREFIX)).sort();
  return Promise.all(
    models.map(async (name) => {
      const path = join(root, name);
      return {
        name: name.slice(PREFIX.length).replaceAll('--', '/'),
        revisions: await revisionsOf(path),
        bytes: await bytesIn(join(path, 'blobs')),
        path,
        lock: lockOf(root, name),
      };
    }),
  );
}

/** The names that point to a commit, or the commits where there are no names. */
async function revisionsOf(folder: string): Promise<string[]> {
  const refs = join(folder, 'refs');
  const entries = await readdir(refs, { recursive: true, withFileTypes: true }).catch(() => []);
  // What a killed process has left begins with a dot.
  const files = entries.filter((entry) => entry.isFile() && !entry.name.startsWith('.'));
  const names = files.map((entry) => join(entry.parentPath, entry.name));
  if (names.length > 0) return names.map((name) => relative(refs, name)).sort();
  return (await readdir(join(folder, 'snapshots')).catch(() => [])).sort();
}
