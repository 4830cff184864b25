// Downloads a model from a hub to the cache: complete files are kept, partial ones continued, and every byte is checked.

import { mkdir, statfs } from 'node:fs/promises';
import { downloadTimeout, isOffline } from '../config/environment.ts';
import { ModelLoadError } from '../errors.ts';
import { bytes } from '../util/bytes.ts';
import { readWeightIndex, WEIGHT_INDEX } from '../util/model-files.ts';
import { downloadFile } from './download-file.ts';
import { cannotWrite, isFileError, sizeOf } from './file-states.ts';
import { HubUnreachableError } from './http.ts';
import { withLock } from './lock.ts';
import type { ModelCache } from './model-cache.ts';
import type { HubOptions, ModelHub } from './model-hub.ts';
import { completeModel, type ModelPart, neededFiles, type WantedFiles } from './needed-files.ts';
import type { RemoteFile } from './remote-file.ts';

const CONCURRENCY = 4;
const STALL_SECONDS = 30;

export interface DownloadProgress {
  /** Bytes, including those that were in the cache already. */
  readonly done: number;
  readonly total: number;
  /** What is going on, for a person. */
  readonly what: string;
}

export interface DownloadOptions extends HubOptions {
  /** All that serves it, where it is left out. */
  readonly part?: ModelPart;
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  /** Gives the download up: what has come stays for the next one. */
  readonly signal?: AbortSignal | undefined;
  readonly env?: NodeJS.ProcessEnv;
}

/**
 * Where the wanted files of a model are, a folder or a file, downloaded as far as they are not there.
 * @throws ModelLoadError saying what is wrong: unknown model, no access, no network, no space, damaged files; ConfigError for a
 *   variable of the environment; the reason of `signal`.
 */
export async function fetchModel(
  hub: ModelHub,
  wanted: WantedFiles,
  { onProgress, signal, env = process.env }: Pick<DownloadOptions, 'onProgress' | 'signal' | 'env'> = {},
): Promise<string> {
  const { repository } = wanted;
  const cache = hub.cacheOf(repository);
  if (isOffline(env)) return offlineCopy(cache, wanted);
  const stallMs = (downloadTimeout(env) ?? STALL_SECONDS) * 1000;
  try {
    const { commit, files } = await hub.list(repository);
    signal?.throwIfAborted();
    const paths = neededFiles(
      files.map(({ path }) => path),
      wanted,
    );
    const download = { hub, cache, commit, repository, stallMs, signal };
    const only = (some: readonly string[]) => files.filter(({ path }) => some.includes(path));
    await fetchMissing({ ...download, needed: only(paths) }, onProgress);
    if (paths.includes(WEIGHT_INDEX)) {
      // Once it is here: it may name files beside the shards, such as that of layers which guess tokens ahead.
      const named = readWeightIndex(cache.snapshot(commit)) ?? [];
      await fetchMissing({ ...download, needed: only(named) }, onProgress);
    }
    await cache.finish(commit).catch((error: unknown) => {
      // Ignore: the files are there, and a cache that others keep may be read-only.
      if (!isFileError(error)) throw error;
    });
    return (await completeModel(cache.snapshot(commit), wanted)) ?? cache.snapshot(commit);
  } catch (error) {
    if (isFileError(error)) throw cannotWrite(error, cache.folder);
    if (!(error instanceof HubUnreachableError)) throw error;
    const cached = await cachedModel(cache, wanted);
    if (cached === null) throw error;
    const what = `${hub.name} cannot be reached: using the local copy of ${repository}`;
    onProgress?.({ done: 0, total: 0, what });
    return cached;
  }
}

async function offlineCopy(cache: ModelCache, wanted: WantedFiles): Promise<string> {
  const cached = await cachedModel(cache, wanted);
  if (cached !== null) return cached;
  throw new ModelLoadError(
    `HF_HUB_OFFLINE is set and ${cache.folder} holds no complete copy of ${wanted.repository}: unset it to download the model`,
  );
}

async function cachedModel(cache: ModelCache, wanted: WantedFiles): Promise<string | null> {
  for (const folder of await cache.latest()) {
    const found = await completeModel(folder, wanted);
    if (found !== null) return found;
  }
  return null;
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

async function hasAll(cache: ModelCache, commit: string, needed: readonly RemoteFile[]): Promise<boolean> {
  const found = await Promise.all(needed.map((file) => cache.holds(file, commit)));
  return found.every(Boolean);
}

interface Download {
  readonly hub: ModelHub;
  readonly cache: ModelCache;
  readonly repository: string;
  readonly commit: string;
  readonly needed: readonly RemoteFile[];
  readonly report: Reporter;
  readonly stallMs: number;
  readonly signal: AbortSignal | undefined;
}

/** The files that are needed and not here yet, by one process at a time. */
async function fetchMissing(
  download: Omit<Download, 'report'>,
  onProgress: DownloadOptions['onProgress'],
): Promise<void> {
  const { cache, commit, needed, repository, signal } = download;
  if (await hasAll(cache, commit, needed)) return;
  const report = progressReporter(repository, needed, onProgress);
  const onWait = () => report.say(`waiting for another process that downloads ${repository}`);
  await withLock(cache.lock, () => downloadAll({ ...download, report }), onWait, signal);
}

async function downloadAll(download: Download): Promise<void> {
  const { hub, cache, repository, commit, report } = download;
  report.say(`downloading ${repository}`);
  await mkdir(cache.folder, { recursive: true });
  await checkSpace(download);
  const failure = new AbortController();
  const giveUp = (): void => failure.abort(download.signal?.reason);
  download.signal?.addEventListener('abort', giveUp, { once: true });
  const context = { hub, model: repository, stallMs: download.stallMs, signal: failure.signal };
  const queue = sameTargets(download).entries();
  const work = async (): Promise<void> => {
    for (const [target, files] of queue) {
      const [file, ...others] = files;
      if (await cache.hasContent(file, commit)) report.add(file.size);
      else await downloadFile(file, target, { ...context, onBytes: report.add });
      for (const { size } of others) report.add(size);
      for (const one of files) await cache.publish(one, commit);
    }
  };
  const workers = Array.from({ length: CONCURRENCY }, () =>
    work().catch((error: unknown) => {
      failure.abort(error);
      throw error;
    }),
  );
  const results = await Promise.allSettled(workers);
  download.signal?.removeEventListener('abort', giveUp);
  // The first failure aborted the others: it is the one to tell.
  if (results.some(({ status }) => status === 'rejected')) throw failure.signal.reason;
}

/** Files of the same content may have one target: it is written once. */
function sameTargets({ cache, commit, needed }: Download): Map<string, [RemoteFile, ...RemoteFile[]]> {
  const targets = new Map<string, [RemoteFile, ...RemoteFile[]]>();
  for (const file of needed) {
    const target = cache.target(file, commit);
    const others = targets.get(target);
    if (others === undefined) targets.set(target, [file]);
    else others.push(file);
  }
  return targets;
}

async function checkSpace({ cache, commit, needed }: Download): Promise<void> {
  const sizes = needed.map(async (file) => {
    if (await cache.hasContent(file, commit)) return 0;
    return Math.max(0, file.size - ((await sizeOf(`${cache.target(file, commit)}.incomplete`)) ?? 0));
  });
  const missing = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  const { bavail, bsize } = await statfs(cache.folder);
  if (missing > bavail * bsize) {
    throw new ModelLoadError(
      `${cache.folder} has ${bytes(bavail * bsize)} free, the download needs ${bytes(missing)}: free some space (svc models list, ` +
        'svc models rm) or give --download-dir another disk',
    );
  }
}
