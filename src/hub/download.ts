// Downloads a model from a hub to the cache: complete files are kept, partial ones continued, and every byte is checked.

import { mkdir, readFile, rename, rm, statfs, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { ModelLoadError } from '../errors.ts';
import { downloadFile, sizeOf } from './download-file.ts';
import { HubUnreachableError } from './http.ts';
import { cachedSnapshot, exists, type ModelCache, type ModelPart, modelCache, neededFiles } from './local.ts';
import { withLock } from './lock.ts';
import type { HubOptions, ModelHub, RemoteFile } from './model-hub.ts';

const CONCURRENCY = 4;

export interface DownloadProgress {
  /** Bytes, including those that were in the cache already. */
  readonly done: number;
  readonly total: number;
  /** What is going on, for a person. */
  readonly what: string;
}

export interface DownloadOptions extends HubOptions {
  /** `tokenizer` fetches no weights. */
  readonly part?: ModelPart;
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  readonly env?: NodeJS.ProcessEnv;
}

/**
 * The folder of `model` with every file that svc needs, downloaded as far as it is not there.
 * @throws ModelLoadError saying what is wrong: unknown model, no access, no network, no space, damaged files.
 */
export async function fetchModel(hub: ModelHub, model: string, options: DownloadOptions): Promise<string> {
  const cache = modelCache(hub, model);
  const { part = 'model' } = options;
  if (isOffline(options.env ?? process.env)) return offlineCopy(cache, model, part);
  try {
    const { commit, files } = await hub.list(model);
    const needed = neededFiles(files, part);
    checkServable(model, part, files, needed);
    const snapshot = cache.snapshot(commit);
    const report = progressReporter(model, needed, options.onProgress);
    if (!(await hasAll(snapshot, needed))) {
      const onWait = () => report.say(`waiting for another process that downloads ${model}`);
      await withLock(
        join(cache.folder, 'svc.lock'),
        () => downloadAll(hub, model, cache, snapshot, needed, report),
        onWait,
      );
    }
    await writeAtomically(cache.ref, commit);
    return snapshot;
  } catch (error) {
    if (!(error instanceof HubUnreachableError)) throw error;
    const cached = await cachedSnapshot(cache, part);
    if (cached === null) throw error;
    options.onProgress?.({
      done: 0,
      total: 0,
      what: `${hub.name} cannot be reached: using the local copy of ${model}`,
    });
    return cached;
  }
}

function isOffline(env: NodeJS.ProcessEnv): boolean {
  return ['1', 'true', 'yes', 'on'].includes((env.HF_HUB_OFFLINE ?? '').toLowerCase());
}

async function offlineCopy(cache: ModelCache, model: string, part: ModelPart): Promise<string> {
  const cached = await cachedSnapshot(cache, part);
  if (cached !== null) return cached;
  throw new ModelLoadError(
    `HF_HUB_OFFLINE is set and ${cache.folder} holds no complete copy of ${model}: unset it to download the model`,
  );
}

function checkServable(
  model: string,
  part: ModelPart,
  files: readonly RemoteFile[],
  needed: readonly RemoteFile[],
): void {
  const paths = needed.map(({ path }) => path);
  if (part === 'tokenizer') {
    if (paths.includes('tokenizer.json')) return;
    throw new ModelLoadError(
      `${model} has no tokenizer.json: expected a tokenizer in the Hugging Face format`,
    );
  }
  if (!paths.includes('config.json')) {
    throw new ModelLoadError(`${model} has no config.json: expected a model in the Hugging Face format`);
  }
  if (!paths.some((path) => path.endsWith('.safetensors'))) {
    const others = files.map(({ path }) => path).filter((path) => /\.(bin|pt|pth|gguf|onnx)$/.test(path));
    const seen = others.length > 0 ? ` (only ${others.slice(0, 3).join(', ')})` : '';
    throw new ModelLoadError(
      `${model} has no *.safetensors${seen}: choose a model that is published as safetensors`,
    );
  }
}

interface Reporter {
  add(bytes: number): void;
  say(what: string): void;
}

function progressReporter(
  model: string,
  needed: readonly RemoteFile[],
  onProgress: DownloadOptions['onProgress'],
): Reporter {
  const total = needed.reduce((sum, { size }) => sum + size, 0);
  let done = 0;
  let what = `downloading ${model}`;
  const report = () => onProgress?.({ done, total, what });
  return {
    add(bytes) {
      done += bytes;
      report();
    },
    say(text) {
      what = text;
      report();
    },
  };
}

async function hasAll(snapshot: string, needed: readonly RemoteFile[]): Promise<boolean> {
  const found = await Promise.all(needed.map(({ path }) => exists(join(snapshot, path))));
  return found.every(Boolean);
}

async function downloadAll(
  hub: ModelHub,
  model: string,
  cache: ModelCache,
  snapshot: string,
  needed: readonly RemoteFile[],
  report: Reporter,
): Promise<void> {
  report.say(`downloading ${model}`);
  await mkdir(cache.blobs, { recursive: true });
  await mkdir(snapshot, { recursive: true });
  await checkSpace(cache, needed);
  const context = { hub: hub.name, model, headers: hub.headers };
  const queue = needed.values();
  const failure = new AbortController();
  const work = async (): Promise<void> => {
    for (const file of queue) {
      const blob = join(cache.blobs, file.hash.hex);
      await downloadFile(file, blob, { ...context, signal: failure.signal, onBytes: report.add });
      await link(blob, join(snapshot, file.path));
    }
  };
  const workers = Array.from({ length: CONCURRENCY }, () =>
    work().catch((error: unknown) => {
      failure.abort(error);
      throw error;
    }),
  );
  const results = await Promise.allSettled(workers);
  // The first failure aborted the others: it is the one to tell.
  if (results.some(({ status }) => status === 'rejected')) throw failure.signal.reason;
}

async function checkSpace(cache: ModelCache, needed: readonly RemoteFile[]): Promise<void> {
  const sizes = needed.map(async ({ hash, size }) => {
    const blob = join(cache.blobs, hash.hex);
    const [whole, part] = await Promise.all([sizeOf(blob), sizeOf(`${blob}.incomplete`)]);
    return whole === null ? Math.max(0, size - (part ?? 0)) : 0;
  });
  const missing = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  const { bavail, bsize } = await statfs(cache.folder);
  if (missing > bavail * bsize) {
    throw new ModelLoadError(
      `${cache.folder} has ${gib(bavail * bsize)} free, the download needs ${gib(missing)}: free some space or set HF_HOME to another disk`,
    );
  }
}

function gib(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(2)} GiB`;
}

/** The snapshot's name of a blob; the path is relative so that the cache may move. */
async function link(blob: string, path: string): Promise<void> {
  const fresh = `${path}.${process.pid}`;
  await rm(fresh, { force: true });
  await symlink(relative(dirname(path), blob), fresh);
  await rename(fresh, path);
}

async function writeAtomically(path: string, content: string): Promise<void> {
  if ((await readFile(path, 'utf8').catch(() => null)) === content) return;
  await mkdir(dirname(path), { recursive: true });
  const fresh = join(dirname(path), `.${basename(path)}.${process.pid}`);
  await writeFile(fresh, content);
  await rename(fresh, path);
}
