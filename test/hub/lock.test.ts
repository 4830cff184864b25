import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { acquireLock, withLock } from '../../src/hub/lock.ts';
import { lockOwner } from '../../src/hub/lock-owner.ts';
import { needs } from '../helpers/needs.ts';
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

function refuse(): never {
  throw new Error('taken');
}

async function plantLock(path: string, owner: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, owner);
}

/** A shell that becomes `sleep`, which never asks about the child that the shell had: that ends afterwards, and stays a zombie. */
async function withZombie(work: (pid: string) => Promise<void>): Promise<void> {
  const parent = spawn('sh', ['-c', 'cat <&3 & echo $!; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'ignore', 'pipe'],
  });
  try {
    const pid = String((await once(parent.stdout!, 'data'))[0]).trim();
    await until(async () => (await readFile(`/proc/${parent.pid}/comm`, 'latin1')) === 'sleep\n');
    parent.stdio[3]?.destroy();
    await until(async () => (await readFile(`/proc/${pid}/stat`, 'latin1')).includes(') Z '));
    await work(pid);
  } finally {
    parent.kill('SIGKILL');
    await once(parent, 'exit');
  }
}

describe('the lock of a model', () => {
  it('is gone after the work, whether that succeeds or fails', async () => {
    const path = newLock();
    const owner = await withLock(path, async () => readFile(path, 'utf8'));
    expect(owner.split(' ').slice(0, 2)).toEqual([hostname(), String(process.pid)]);
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
    await plantLock(path, `${hostname()} 999999999`);
    const release = await acquireLock(path, refuse);
    await expect(acquireLock(path, refuse)).rejects.toThrow('taken');
    await release();
    await (await acquireLock(path, refuse))();
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('is looked at once more before it is removed, for it may have another owner by then', async () => {
    const path = newLock();
    await plantLock(path, `${hostname()} 999999999`);
    const living = lockOwner(null);
    // Another process has found it as well, removes it, and takes the lock.
    await plantLock(`${path}.removal`, living);
    const next = endless();
    const waiting = withLock(path, next.work);
    await sleep(50);
    await writeFile(path, living);
    await rm(`${path}.removal`);
    await sleep(500);
    expect(next.hasStarted()).toBe(false);
    await rm(path);
    next.end();
    await waiting;
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('is removed although a process was killed while it removed it', async () => {
    const path = newLock();
    for (const file of [path, `${path}.removal`]) await plantLock(file, `${hostname()} 999999999`);
    await (await acquireLock(path, refuse))();
    expect(await readdir(dirname(path))).toEqual([]);
  });

  it('is waited for no longer than wanted where another process, elsewhere, removes an abandoned one', async () => {
    const path = newLock();
    await plantLock(path, `${hostname()} 999999999`);
    await plantLock(`${path}.removal`, 'another-machine 1');
    const stop = new AbortController();
    const waiting = acquireLock(path, () => {}, stop.signal);
    stop.abort(new Error('no more'));
    await expect(waiting).rejects.toThrow('no more');
  });

  it('is held by one at a time, whoever finds an abandoned one', async () => {
    const path = newLock();
    await plantLock(path, `${hostname()} 999999999`);
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

const needsProc = needs(existsSync('/proc/self/stat'), 'this machine has no /proc');

const needsNamespaces = needs(
  spawnSync('unshare', ['--pid', '--fork', '--mount-proc', 'true']).status === 0,
  'this user may not make a namespace of processes',
);

describe('a lock in containers that have the same name and network', needsNamespaces, () => {
  const containers: ChildProcess[] = [];
  afterEach(() => {
    for (const container of containers.splice(0)) container.kill('SIGKILL');
  });

  /** Acquires the lock as the first process of a container, and says so. */
  function contain(path: string) {
    const program = `
      import { acquireLock } from '${new URL('../../src/hub/lock.ts', import.meta.url).href}';
      await acquireLock(process.argv[1], () => { console.log('taken'); process.exit(); });
      console.log('acquired');
      setInterval(() => {}, 1000);`;
    const node = [process.execPath, '--import', 'tsx', '--input-type=module', '-e', program, path];
    const stdio = ['ignore', 'pipe', 'inherit'] as const;
    const container = spawn('unshare', ['--pid', '--fork', '--kill-child', '--mount-proc', ...node], {
      stdio: [...stdio],
    });
    containers.push(container);
    return { container, said: once(container.stdout!, 'data').then(String) };
  }

  it('is held by one of them, and abandoned when that has ended', async () => {
    const path = newLock();
    const first = contain(path);
    expect(await first.said).toBe('acquired\n');
    expect(await contain(path).said).toBe('taken\n');
    first.container.kill('SIGKILL');
    await once(first.container, 'exit');
    expect(await contain(path).said).toBe('acquired\n');
  });
});

describe('a lock whose pid is in use', needsProc, () => {
  const own = `${hostname()} ${process.pid}`;

  it('is held by the process that began when the lock says', async () => {
    const path = newLock();
    await plantLock(path, await withLock(path, async () => readFile(path, 'utf8')));
    await expect(acquireLock(path, refuse)).rejects.toThrow('taken');
  });

  it.each([
    ['that process began at another time', `${own} 1`],
    ['an earlier version wrote it and the pid is our own', own],
  ])('is abandoned where %s', async (_, owner) => {
    const path = newLock();
    await plantLock(path, owner);
    await (await acquireLock(path, refuse))();
    expect(existsSync(path)).toBe(false);
  });

  it('is held where an earlier version wrote it and another process has the pid', async () => {
    const path = newLock();
    await plantLock(path, `${hostname()} ${process.ppid}`);
    await expect(acquireLock(path, refuse)).rejects.toThrow('taken');
  });

  it('is refused at once where it is abandoned and cannot be removed', async () => {
    const path = newLock();
    await mkdir(join(path, 'in the way'), { recursive: true });
    await utimes(path, new Date(0), new Date(0));
    await expect(acquireLock(path, refuse)).rejects.toThrow(/EISDIR|is a directory/);
    expect(await readdir(dirname(path))).toEqual([basename(path)]);
  });

  it('is abandoned where the process has ended and its parent has not asked about it', async () => {
    await withZombie(async (pid) => {
      const path = newLock();
      await plantLock(path, `${hostname()} ${pid}`);
      await (await acquireLock(path, refuse))();
    });
  });
});
