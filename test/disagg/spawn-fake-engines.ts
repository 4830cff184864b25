// Starts instances without a model in a process of their own.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { FakeEngineProcessOptions } from './fake-engine-process.ts';

/** Resolves when all of them serve. SIGTERM drains them. */
export async function spawnFakeEngines(options: readonly FakeEngineProcessOptions[]): Promise<ChildProcess> {
  const child = await spawnWaiting();
  await startFakeEngines(child, options);
  return child;
}

/** A process that has loaded all it needs, and waits for `startFakeEngines`. */
export async function spawnWaiting(): Promise<ChildProcess> {
  const args = ['--import', 'tsx', 'test/disagg/fake-engine-process.ts'];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  await itsWord(child);
  return child;
}

export async function startFakeEngines(
  child: ChildProcess,
  options: readonly FakeEngineProcessOptions[],
): Promise<void> {
  child.stdin?.end(JSON.stringify(options));
  await itsWord(child);
}

async function itsWord(child: ChildProcess): Promise<void> {
  const over = new AbortController();
  const ended = once(child, 'exit', over).then(() => {
    throw new Error(`instances without a model did not start: exit code ${child.exitCode}`);
  });
  await Promise.race([once(child.stdout!, 'data'), ended]);
  ended.catch(() => {});
  over.abort();
}
