// One file from a hub to the cache: resumed where it was cut, checked against its hash, renamed when it is whole.

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { ModelLoadError } from '../errors.ts';
import { type HubContext, reasonOf, refuseForGood, retryDelay, unreachable } from './http.ts';
import type { RemoteFile } from './model-hub.ts';

/** A connection that brings nothing for this long is dropped and made anew. */
const STALL_MS = 30_000;
/** Tries in a row that bring not one byte before the download is given up. */
const FRUITLESS_TRIES = 6;

interface FileDownload extends HubContext {
  readonly signal: AbortSignal;
  /** Bytes that came, or that were there; negative where they had to be thrown away. */
  onBytes(bytes: number): void;
}

/**
 * Makes `blob` the content of `file`; a part of it may lie in `<blob>.incomplete` from an earlier try.
 * @throws ModelLoadError when the hub refuses, the network stays away, the content is wrong twice or the disk is full.
 */
export async function downloadFile(file: RemoteFile, blob: string, download: FileDownload): Promise<void> {
  if ((await sizeOf(blob)) === file.size) {
    download.onBytes(file.size);
    return;
  }
  const part = `${blob}.incomplete`;
  for (let attempt = 1; ; attempt++) {
    await fillPart(file, part, download);
    if ((await contentHash(part, file)) === file.hash.hex) break;
    await rm(part);
    download.onBytes(-file.size);
    if (attempt === 2)
      throw new ModelLoadError(
        `${file.url}: the content does not match its hash, twice: report it to the hub`,
      );
  }
  await rename(part, blob);
}

/** Fetches until `part` has the size of `file`; every try goes on where the last one ended. */
async function fillPart(file: RemoteFile, part: string, download: FileDownload): Promise<void> {
  const handle = await open(part, 'a+').catch((error: unknown) => {
    throw writeError(error, part);
  });
  try {
    let have = (await handle.stat()).size;
    if (have > file.size) {
      await handle.truncate(0);
      have = 0;
    }
    download.onBytes(have);
    for (let fruitless = 0; have < file.size; ) {
      const before = have;
      const fault = await tryOnce(file, handle, have, download).catch((error: unknown) => {
        if (error instanceof ModelLoadError || download.signal.aborted) throw error;
        return { reason: error, response: undefined };
      });
      have = (await handle.stat()).size;
      fruitless = have > before ? 0 : fruitless + 1;
      if (fruitless >= FRUITLESS_TRIES) throw unreachable(fault?.reason, download);
      if (fault !== null && have < file.size) {
        await sleep(retryDelay(fruitless + 1, fault.response), undefined, { signal: download.signal });
      }
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

interface Fault {
  readonly reason: unknown;
  readonly response: Response | undefined;
}

/** One request. @returns null when it ran to its end, else what to try again for. */
async function tryOnce(
  file: RemoteFile,
  handle: FileHandle,
  have: number,
  download: FileDownload,
): Promise<Fault | null> {
  download.signal.throwIfAborted();
  // One controller by hand: on Node 20 a signal of AbortSignal.any can be collected before it has done its work.
  const attempt = new AbortController();
  const { signal } = attempt;
  const stop = (): void => attempt.abort(download.signal.reason);
  download.signal.addEventListener('abort', stop, { once: true });
  const stalled = new Error(`no data for ${STALL_MS / 1000} s`);
  const watchdog = setTimeout(() => attempt.abort(stalled), STALL_MS);
  try {
    const headers = have > 0 ? { ...download.headers, range: `bytes=${have}-` } : download.headers;
    const response = await orAborted(fetch(file.url, { headers, signal }), signal);
    refuseForGood(response, download);
    if (!response.ok || response.body === null) {
      return { reason: new Error(`HTTP ${response.status}`), response };
    }
    if (have > 0 && response.status !== 206) {
      // The server sends the whole file again.
      await handle.truncate(0);
      download.onBytes(-have);
    }
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await orAborted(reader.read(), signal);
      if (done) return null;
      watchdog.refresh();
      await handle.appendFile(value).catch((error: unknown) => {
        throw writeError(error, file.path);
      });
      download.onBytes(value.byteLength);
    }
  } finally {
    clearTimeout(watchdog);
    download.signal.removeEventListener('abort', stop);
  }
}

/** What `promise` gives, or the signal's reason: fetch on Node 20 does not always hear an abort while a body comes. */
async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  // Nobody may be left to hear of it.
  promise.catch(() => {});
  signal.throwIfAborted();
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
  });
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener('abort', stop));
}

function writeError(error: unknown, path: string): ModelLoadError {
  const isFull =
    error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
  const what = isFull ? 'the disk is full: free some space or set HF_HOME to another disk' : reasonOf(error);
  return new ModelLoadError(`${path} cannot be written: ${what}`, { cause: error });
}

async function contentHash(path: string, file: RemoteFile): Promise<string> {
  const isGit = file.hash.algorithm === 'git-blob';
  const hash = createHash(isGit ? 'sha1' : 'sha256');
  if (isGit) hash.update(`blob ${file.size}\0`);
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk);
  return hash.digest('hex');
}

/** Bytes of a file, null where there is none. */
export async function sizeOf(path: string): Promise<number | null> {
  return stat(path).then(
    ({ size }) => size,
    () => null,
  );
}
