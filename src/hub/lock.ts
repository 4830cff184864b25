// One process downloads a model at a time: a lock file that its owner keeps fresh and that outlives no owner.

import { mkdir, open, readFile, rm, stat, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const HEARTBEAT_MS = 5_000;
/** A lock this old has lost its owner, on whatever machine that was. */
const STALE_MS = 30_000;
const POLL_MS = 200;

/** Runs `work` while holding the lock `path`; waits as long as another process keeps it fresh. */
export async function withLock<T>(
  path: string,
  work: () => Promise<T>,
  onWait: () => void = () => {},
): Promise<T> {
  let hasWaited = false;
  while (!(await tryAcquire(path))) {
    if (!hasWaited) onWait();
    hasWaited = true;
    if (await isAbandoned(path)) await rm(path, { force: true });
    else await sleep(POLL_MS);
  }
  const heartbeat = setInterval(() => {
    const now = new Date();
    // Ignore: somebody removed the lock file.
    utimes(path, now, now).catch(() => {});
  }, HEARTBEAT_MS);
  heartbeat.unref();
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    await rm(path, { force: true });
  }
}

async function tryAcquire(path: string): Promise<boolean> {
  await mkdir(dirname(path), { recursive: true });
  try {
    const file = await open(path, 'wx');
    await file.writeFile(`${hostname()} ${process.pid}`);
    await file.close();
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

async function isAbandoned(path: string): Promise<boolean> {
  const [owner, info] = await Promise.all([
    readFile(path, 'utf8').catch(() => ''),
    stat(path).catch(() => null),
  ]);
  if (info === null) return false;
  const [host, pid] = owner.split(' ');
  if (host === hostname() && pid !== undefined && !isRunning(Number(pid))) return true;
  return Date.now() - info.mtimeMs > STALE_MS;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs and belongs to somebody else.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
