// The two servers that are compared, each in a process of its own with the same number of threads.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../test/helpers/svc-process.ts';
import { complete } from './client.ts';

export const THREADS = 2;

const START_DEADLINE_MS = 120_000;
const POLL_MS = 10;

/** How many sequences run at the same time, and how long each may be. */
export interface Seats {
  readonly numSeqs: number;
  readonly contextSize: number;
}

export interface BenchServer {
  readonly url: string;
  /** From the start of the process to the first token of an answer. */
  readonly readySeconds: number;
  /** Most memory that the process had at a time, mapped files included. */
  peakBytes(): number;
  stop(): Promise<void>;
}

/** @param options of `svc serve`. */
export async function startSvc(
  folder: string,
  { numSeqs, contextSize }: Seats,
  options: readonly string[],
): Promise<BenchServer> {
  const port = await freePort();
  const args = ['serve', folder, '--host', '127.0.0.1', '--port', `${port}`, '--num-threads', `${THREADS}`];
  const limits = ['--max-num-seqs', `${numSeqs}`, '--max-model-len', `${contextSize}`];
  // Random weights have no tokenizer, and no prompt is to find another's blocks.
  const plain = ['--skip-tokenizer-init', '--no-enable-prefix-caching', '--log-level', 'error'];
  return start(port, ['dist/cli/main.js', ...args, ...limits, ...plain, ...options]);
}

export async function startPeer(modelPath: string, { numSeqs, contextSize }: Seats): Promise<BenchServer> {
  const port = await freePort();
  const options = JSON.stringify({ modelPath, port, threads: THREADS, numSeqs, contextSize });
  return start(port, [join(import.meta.dirname, 'peer-server.mjs'), options]);
}

async function start(port: number, args: readonly string[]): Promise<BenchServer> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  // Whatever ends the comparison ends what it has started.
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  child.once('exit', () => process.off('exit', kill));
  const url = `http://127.0.0.1:${port}`;
  await firstToken(child, url);
  return {
    url,
    readySeconds: (performance.now() - startedAt) / 1000,
    peakBytes: () => peakBytes(child.pid!),
    stop: async () => {
      if (child.exitCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

/** Asks for one token until it comes. */
async function firstToken(child: ChildProcess, url: string): Promise<void> {
  const deadline = performance.now() + START_DEADLINE_MS;
  let refusal: unknown = null;
  while (performance.now() < deadline && child.exitCode === null) {
    try {
      await complete(url, [1], 1);
      return;
    } catch (error) {
      refusal = error;
    }
    await sleep(POLL_MS);
  }
  child.kill('SIGKILL');
  throw new Error(`no answer of ${child.spawnargs.slice(1, 3).join(' ')}`, { cause: refusal });
}

function peakBytes(pid: number): number {
  const [, kilobytes = 'NaN'] =
    /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return 1024 * Number(kilobytes);
}
