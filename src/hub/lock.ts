// One process at a time downloads a model, or writes a file: a lock file that its owner keeps fresh and that outlives no owner.

import { rmSync, statSync } from 'node:fs';
import { type FileHandle, mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LifeSign } from './life-sign.ts';
import { hasEnded, lockOwner } from './lock-owner.ts';

const HEARTBEAT_MS = 5_000;
/** A lock this old has lost its owner, on whatever machine that was. */
const STALE_MS = 30_000;
const POLL_MS = 200;

/** Runs `work` while holding the lock `path`; waits as long as another process keeps it fresh. */
export async function withLock<T>(
  path: string,
  work: () => Promise<T>,
  onWait: () => void = () => {},
  signal?: AbortSignal,
): Promise<T> {
  const release = await acquireLock(path, onWait, signal);
  try {
    return await work();
  } finally {
    await release();
  }
}

/**
 * Waits as long as another process keeps the lock fresh, and gives the function that releases it.
 * @param onWait is called before that wait; who does not want to wait throws an error in it.
 * @throws the reason of `signal` when that is aborted during the wait.
 */
export async function acquireLock(
  path: string,
  onWait: () => void,
  signal?: AbortSignal,
): Promise<() => Promise<void>> {
  const lifeSign = await LifeSign.begin();
  const wanted = { path, owner: lockOwner(lifeSign?.name ?? null) };
  const file = await acquire(wanted, onWait, signal).catch((error: unknown) => {
    lifeSign?.end();
    throw error;
  });
  const heartbeat = setInterval(() => {
    const now = new Date();
    // Ignore: where the file system refuses it, others take the lock over after a while.
    file.utimes(now, now).catch(() => {});
  }, HEARTBEAT_MS);
  heartbeat.unref();
  const { ino } = await file.stat();
  const atExit = (): void => giveBack(path, ino);
  process.once('exit', atExit);
  return async () => {
    clearInterval(heartbeat);
    process.off('exit', atExit);
    giveBack(path, ino);
    lifeSign?.end();
    await file.close();
  };
}

/** Not asynchronous, so that a process can do it when it ends with its work undone: others need not wait for what it holds. */
function giveBack(path: string, inode: number): void {
  // A process that stood still for too long has lost its lock: what is at the path is the next owner's.
  if (statSync(path, { throwIfNoEntry: false })?.ino === inode) rmSync(path, { force: true });
}

interface WantedLock {
  readonly path: string;
  readonly owner: string;
}

async function acquire(
  wanted: WantedLock,
  onWait: () => void,
  signal: AbortSignal | undefined,
): Promise<FileHandle> {
  const { path } = wanted;
  await mkdir(dirname(path), { recursive: true });
  let hasWaited = false;
  for (;;) {
    const file = await create(wanted);
    if (file !== null) return file;
    if (await isAbandoned(path)) {
      if (!(await removeAbandoned(wanted))) await sleep(POLL_MS);
      signal?.throwIfAborted();
      continue;
    }
    if (!hasWaited) onWait();
    hasWaited = true;
    await sleep(POLL_MS);
    signal?.throwIfAborted();
  }
}

/** Null where there is one already. */
async function create({ path, owner }: WantedLock): Promise<FileHandle | null> {
  const file = await open(path, 'wx').catch((error: unknown) => {
    if (hasCode(error, 'EEXIST')) return null;
    throw error;
  });
  // One that cannot be written would keep others waiting for nobody.
  await file?.writeFile(owner).catch(async (error: unknown) => {
    await rm(path, { force: true });
    await file.close();
    throw error;
  });
  return file;
}

/**
 * One process at a time removes a lock, and looks at it once more: what is at the path may be the lock of the next owner by now, with the
 * same inode even.
 * @returns false where it is another one's turn.
 * @throws where it is there and this process may not remove it.
 */
async function removeAbandoned({ path, owner }: WantedLock): Promise<boolean> {
  const turn = `${path}.removal`;
  const file = await create({ path: turn, owner });
  if (file === null) {
    // Its process may have been killed meanwhile.
    if (await isAbandoned(turn)) await rm(turn, { force: true });
    return false;
  }
  try {
    if (await isAbandoned(path)) await rm(path, { force: true });
    return true;
  } finally {
    await rm(turn, { force: true });
    await file.close();
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** Whether the owner of the lock has ended, or has not kept it fresh; false where there is none any more. */
async function isAbandoned(path: string): Promise<boolean> {
  const [owner, info] = await Promise.all([
    readFile(path, 'utf8').catch(() => ''),
    stat(path).catch(() => null),
  ]);
  return info !== null && (hasEnded(owner) || Date.now() - info.mtimeMs > STALE_MS);
}
