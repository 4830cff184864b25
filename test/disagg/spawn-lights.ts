// Starts instances without a model in a process of their own.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { LightProcessOptions } from './light-process.ts';

/** Resolves when all of them serve. SIGTERM drains them. */
export async function spawnLights(options: readonly LightProcessOptions[]): Promise<ChildProcess> {
  const args = ['--import', 'tsx', 'test/disagg/light-process.ts', JSON.stringify(options)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit').then(() => {
    throw new Error(`instances without a model did not start: exit code ${child.exitCode}`);
  });
  await Promise.race([once(child.stdout!, 'data'), ended]);
  return child;
}
