// A real `svc serve` in a process of its own, for tests that kill, signal or talk to it.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const START_DEADLINE_MS = 40_000;

export interface ServeProcess {
  readonly child: ChildProcess;
  readonly port: number;
  /** Without /v1. */
  readonly url: string;
  /** What it has written to stderr so far. */
  readonly stderr: () => string;
  /** SIGTERM, then the exit code. */
  stop(): Promise<number | null>;
}

/** Starts `svc serve ...args` on a free port and waits until it answers /health. */
export async function startServeProcess(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<ServeProcess> {
  const port = await freePort();
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', 'src/cli/main.ts', 'serve', ...args, '--host', '127.0.0.1', '--port', String(port)],
    { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const url = `http://127.0.0.1:${port}`;
  await waitUntilHealthy(child, url, () => stderr);
  return {
    child,
    port,
    url,
    stderr: () => stderr,
    stop: async () => {
      if (child.exitCode !== null) return child.exitCode;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
      return child.exitCode;
    },
  };
}

/** A port that nobody listened on a moment ago. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}

async function waitUntilHealthy(child: ChildProcess, url: string, stderr: () => string): Promise<void> {
  const deadline = performance.now() + START_DEADLINE_MS;
  while (performance.now() < deadline) {
    if (child.exitCode !== null)
      throw new Error(`the server ended with code ${child.exitCode}:\n${stderr()}`);
    const response = await fetch(`${url}/health`).catch(() => null);
    await response?.arrayBuffer();
    if (response?.status === 200) return;
    await sleep(25);
  }
  child.kill('SIGKILL');
  throw new Error(`the server was not healthy after ${START_DEADLINE_MS / 1000} s:\n${stderr()}`);
}
