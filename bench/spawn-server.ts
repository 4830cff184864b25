// Starts a server of a benchmark's own in a process of its own.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** @param script prints its port when it listens. */
export async function spawnServer(
  script: string,
  args: readonly (string | number)[],
): Promise<{ child: ChildProcess; url: string }> {
  const command = ['--import', 'tsx', script, ...args.map(String)];
  const child = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = await once(child.stdout!.setEncoding('utf8'), 'data');
  return { child, url: `http://127.0.0.1:${String(port).trim()}` };
}
