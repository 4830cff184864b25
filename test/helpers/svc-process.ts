// A real `svc` command in a process of its own, for tests that kill, signal or talk to it.

import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { SVC_COMMAND } from './svc-command.ts';

const START_DEADLINE_MS = 100_000;

export interface SvcProcess {
  readonly child: ChildProcess;
  readonly port: number;
  /** Without /v1. */
  readonly url: string;
  /** What it has written to stderr so far. */
  readonly stderr: () => string;
  /** SIGTERM, then the exit code. */
  stop(): Promise<number | null>;
}

/** Starts `svc ...args` and does not wait; it is to listen on `port`. */
export function spawnSvc(args: readonly string[], port: number, env: NodeJS.ProcessEnv = {}): SvcProcess {
  const child = spawn(process.execPath, [...SVC_COMMAND, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return {
    child,
    port,
    url: `http://127.0.0.1:${port}`,
    stderr: () => stderr,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
      return child.exitCode;
    },
  };
}

/** Starts `svc serve ...args` on a free port and waits until it answers /health. */
export async function startServeProcess(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<SvcProcess> {
  const port = await freePort();
  const svc = spawnSvc(['serve', ...args, '--host', '127.0.0.1', '--port', String(port)], port, env);
  await waitUntilReady(svc);
  return svc;
}

/** Resolves when `isReady` is true of the process; ends it where that takes too long. */
export async function waitUntilReady(
  svc: SvcProcess,
  isReady: (svc: SvcProcess) => Promise<boolean> = isHealthy,
): Promise<void> {
  const deadline = performance.now() + START_DEADLINE_MS;
  while (performance.now() < deadline) {
    if (svc.child.exitCode !== null)
      throw new Error(`svc ended with code ${svc.child.exitCode}:\n${svc.stderr()}`);
    if (await isReady(svc)) return;
    await sleep(25);
  }
  svc.child.kill('SIGKILL');
  throw new Error(`svc was not ready after ${START_DEADLINE_MS / 1000} s:\n${svc.stderr()}`);
}

async function isHealthy({ url }: SvcProcess): Promise<boolean> {
  const response = await fetch(`${url}/health`).catch(() => null);
  await response?.arrayBuffer();
  return response?.status === 200;
}

/** Where the kernel begins to hand out ports for outgoing connections: one of those may be taken at any moment. */
const FIRST_EPHEMERAL_PORT = 32_768;
const FIRST_PORT = 10_240;
/** Each of the processes that test at the same time has as many of its own, and gives them out in turn. */
const PORTS_OF_WORKER = 2048;
const MOST_WORKERS = (FIRST_EPHEMERAL_PORT - FIRST_PORT) / PORTS_OF_WORKER;
const firstPort = FIRST_PORT + (Number(process.env.VITEST_POOL_ID ?? 0) % MOST_WORKERS) * PORTS_OF_WORKER;
let turn = randomInt(PORTS_OF_WORKER);

/** A port that nobody listened on a moment ago. */
export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

/** Different ones. */
export async function freePorts(count: number): Promise<number[]> {
  const probes: Server[] = [];
  const ports: number[] = [];
  while (ports.length < count) {
    turn = (turn + 1) % PORTS_OF_WORKER;
    const port = firstPort + turn;
    const probe = createServer().listen(port, '127.0.0.1');
    if (!(await isListening(probe))) continue;
    probes.push(probe);
    ports.push(port);
  }
  for (const probe of probes) probe.close();
  return ports;
}

async function isListening(probe: Server): Promise<boolean> {
  return once(probe, 'listening').then(
    () => true,
    () => false,
  );
}
