// Starts of `svc serve` on the 0.5B shape: without and with an entry of the packed cache, until it says that it is ready, and
// the memory that the process had at most. The file of the model is in the page cache.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeRandomModel } from './random-model.ts';
import type { Figure, Section } from './report.ts';

/** As it is published: `npm run bench` builds it. */
const PROGRAM = 'dist/cli/main.js';
/** The best of so many starts: others use the machine as well. */
const STARTS = 5;
const KV_BYTES = 2 ** 30;
/** Bytes beside the packed weights and the KV memory. */
const MOST_OTHER = 300e6;

interface Start {
  readonly seconds: number;
  /** VmHWM, bytes. */
  readonly peakBytes: number;
}

export async function loadSection(): Promise<Section> {
  const model = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  try {
    writeRandomModel(model, 'qwen2.5-0.5b');
    const figures = [
      ...(await measure(model, 'bfloat16', [])),
      ...(await measure(model, 'int8', ['-q', 'int8'])),
    ];
    return {
      title: 'Loading, qwen2.5-0.5b',
      figures,
      notes: [
        `Seconds from the start of the process until it says that it is ready, the best of ${STARTS}; no tokenizer. Memory: VmHWM ` +
          'beside the size of the packed weights; no KV block is touched before the first request.',
      ],
    };
  } finally {
    rmSync(model, { recursive: true });
  }
}

async function measure(model: string, name: string, flags: readonly string[]): Promise<Figure[]> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-packed-'));
  const args = [model, '--skip-tokenizer-init', '--kv-cache-memory-bytes', String(KV_BYTES), ...flags];
  const cached = [...args, '--packed-cache', folder];
  try {
    const first = await best(() => start(args));
    await start(cached, () => readdirSync(folder).some((entry) => entry.endsWith('.packed')));
    const [entry = ''] = readdirSync(folder);
    // But for a page a weight and a table of checksums.
    const weightBytes = statSync(join(folder, entry)).size;
    const second = await best(() => start(cached));
    const memory = (what: string, { peakBytes }: Start): Figure => ({
      name: `${name}: peak memory of ${what} beside packed weights of ${(weightBytes / 1e6).toFixed(0)} MB`,
      value: (peakBytes - weightBytes) / 1e6,
      unit: 'MB',
      limit: null,
      goal: `<= ${MOST_OTHER / 1e6}`,
    });
    return [
      { name: `${name}: first start`, value: first.seconds, unit: 's', limit: null, goal: '< 2' },
      { name: `${name}: second start`, value: second.seconds, unit: 's', limit: null, goal: '< 1' },
      memory('the first start', first),
      memory('the second start', second),
    ];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The least of each figure. */
async function best(run: () => Promise<Start>): Promise<Start> {
  const starts: Start[] = [];
  for (let i = 0; i < STARTS; i += 1) starts.push(await run());
  return {
    seconds: Math.min(...starts.map(({ seconds }) => seconds)),
    peakBytes: Math.min(...starts.map(({ peakBytes }) => peakBytes)),
  };
}

/** @param isDone what to wait for before it is stopped */
async function start(args: readonly string[], isDone: () => boolean = () => true): Promise<Start> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, [PROGRAM, 'serve', ...args, '--host', '127.0.0.1', '--port', '0'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  await isReady(child.stderr);
  const seconds = (performance.now() - startedAt) / 1000;
  const peakBytes = peakOf(child);
  while (!isDone()) await sleep(20);
  child.kill('SIGTERM');
  await exited;
  return { seconds, peakBytes };
}

/** Resolves with the report of the start; goes on reading. */
async function isReady(output: Readable): Promise<void> {
  let said = '';
  await new Promise<void>((resolve, reject) => {
    output.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (said.includes('is ready after')) resolve();
    });
    output.once('end', () => reject(new Error(`svc did not start:\n${said}`)));
  });
}

function peakOf({ pid }: ChildProcess): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}
