// One file from a hub to the cache: resumed where it was cut, checked against its hash, renamed when it is whole.

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ModelLoadError } from '../errors.ts';
import { cannotWrite } from './file-states.ts';
import { HubBusyError, type HubContext, refuseForGood, retryDelay, unreachable } from './http.ts';
import type { RemoteFile } from './remote-file.ts';

/** Tries in a row that bring not one byte before the download is given up. */
const FRUITLESS_TRIES = 6;

interface FileDownload extends HubContext {
  readonly signal: AbortSignal;
  /** A connection that brings nothing for this long is dropped and made anew. */
  readonly stallMs: number;
  /** Bytes that came, or that were there; negative where they had to be thrown away. */
  onBytes(bytes: number): void;
}

/**
 * Makes `target` the content of `file`; an earlier attempt may have left a part of it in `<target>.incomplete`.
 * @throws ModelLoadError when the hub refuses, the network stays away, the content is wrong twice or the disk is full.
 */
export async function downloadFile(file: RemoteFile, target: string, download: FileDownload): Promise<void> {
  const part = `${target}.incomplete`;
  await mkdir(dirname(target), { recursive: true }).catch((error: unknown) => {
    throw cannotWrite(error, target);
  });
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
  await rename(part, target);
}

/** Fetches until `part` has the size of `file`; every try goes on where the last one ended. */
async function fillPart(file: RemoteFile, part: string, download: FileDownload): Promise<void> {
  const handle = await open(part, 'a+').catch((error: unknown) => {
    throw cannotWrite(error, part);
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
        return error;
      });
      have = (await handle.stat()).size;
      fruitless = have > before ? 0 : fruitless + 1;
      if (have >= file.size) break;
      const delay = fault === null ? 0 : retryDelay(fruitless + 1, fault);
      if (fruitless >= FRUITLESS_TRIES || delay === null) throw unreachable(fault, download);
      await sleep(delay, undefined, { signal: download.signal });
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * One request.
 * @returns null when the answer ran to its end.
 * @throws what to try again for, or a ModelLoadError.
 */
async function tryOnce(
  file: RemoteFile,
  handle: FileHandle,
  have: number,
  download: FileDownload,
): Promise<null> {
  download.signal.throwIfAborted();
  // One controller by hand: on Node 20 a signal of AbortSignal.any can be collected before it has done its work.
  const attempt = new AbortController();
  const { signal } = attempt;
  const stop = (): void => attempt.abort(download.signal.reason);
  download.signal.addEventListener('abort', stop, { once: true });
  const stalled = new Error(`no data for ${download.stallMs / 1000} s`);
  const watchdog = setTimeout(() => attempt.abort(stalled), download.stallMs);
  try {
    // A place in the file is none in a compressed answer.
    const own = { ...download.hub.headers, 'accept-encoding': 'identity' };
    const headers = have > 0 ? { ...own, range: `bytes=${have}-` } : own;
    const response = await orAborted(fetch(file.url, { headers, signal }), signal);
    refuseForGood(response, download);
    if (have > 0 && (response.status === 200 || response.status === 416)) {
      // The server sends the whole file again, or has no such place in it.
      await handle.truncate(0);
      download.onBytes(-have);
    }
    if (!response.ok || response.body === null) throw new HubBusyError(response);
    let room = response.status === 206 ? file.size - have : file.size;
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await orAborted(reader.read(), signal);
      if (done) return null;
      watchdog.refresh();
      room -= value.byteLength;
      if (room < 0) throw tooLong(file);
      await handle.appendFile(value).catch((error: unknown) => {
        throw cannotWrite(error, file.path);
      });
      download.onBytes(value.byteLength);
    }
  } finally {
    clearTimeout(watchdog);
    attempt.abort();
    download.signal.removeEventListener('abort', stop);
  }
}

/** The result of `promise`, or the signal's reason: fetch on Node 20 misses some aborts while it reads a body. */
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

function tooLong({ url, size }: RemoteFile): ModelLoadError {
  return new ModelLoadError(
    `${url}: the hub sends more than the ${size} bytes that it lists: the file is being replaced, try again later`,
  );
}

async function contentHash(path: string, file: RemoteFile): Promise<string> {
  const isGit = file.hash.algorithm === 'git-blob';
  const hash = createHash(isGit ? 'sha1' : 'sha256');
  if (isGit) hash.update(`blob ${file.size}\0`);
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk);
  return hash.digest('hex');
}
