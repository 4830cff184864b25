import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { acquireLock, withLock } from '../../src/hub/lock.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { until } from '../helpers/until.ts';

const newFolder = temporaryFolders();
const newLock = () => join(newFolder(), 'svc.lock');

/** Work that goes on until it is told to end. */
function endless() {
  let end = (): void => {};
  let hasStarted = false;
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const work = (): Promise<void> => {
    hasStarted = true;
    return ended;
  };
  return { work, end, hasStarted: () => hasStarted };
}

describe('the lock of a model', () => {
  it('is gone after the work, whether that succeeds or fails', async () => {
    const path = newLock();
    expect(await withLock(path, async () => readFile(path, 'utf8'))).toBe(`${hostname()} ${process.pid}`);
    expect(existsSync(path)).toBe(false);
    const failing = withLock(path, () => Promise.reject(new Error('enough')));
    await expect(failing).rejects.toThrow('enough');
    expect(existsSync(path)).toBe(false);
  });

  it('stays with the owner who took it over, when the one who stood still for too long is done', async () => {
    const path = newLock();
    const [first, second] = [endless(), endless()];
    const slow = withLock(path, first.work);
    await until(first.hasStarted);
    const next = withLock(path, second.work);
    // As if no sign of life had come for long.
    await until(async () => {
      if (!second.hasStarted()) await utimes(path, new Date(0), new Date(0)).catch(() => {});
      return second.hasStarted();
    });
    first.end();
    await slow;
    expect(existsSync(path)).toBe(true);
    second.end();
    await next;
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('need not be waited for, and is no reason to wait where its owner has ended', async () => {
    const path = newLock();
    const refuse = (): never => {
      throw new Error('taken');
    };
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, `${hostname()} 999999999`);
    const release = await acquireLock(path, refuse);
    await expect(acquireLock(path, refuse)).rejects.toThrow('taken');
    await release();
    await (await acquireLock(path, refuse))();
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('is held by one at a time, whoever finds an abandoned one', async () => {
    const path = newLock();
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, `${hostname()} 999999999`);
    let numHolders = 0;
    const work = async (): Promise<number> => {
      numHolders += 1;
      await new Promise(setImmediate);
      const seen = numHolders;
      numHolders -= 1;
      return seen;
    };
    const seen = await Promise.all(Array.from({ length: 4 }, () => withLock(path, work)));
    expect(seen).toEqual([1, 1, 1, 1]);
    expect(await readdir(dirname(path))).toEqual([]);
  });
});
