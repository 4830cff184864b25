// Runs one part in a process group of its own, which is ended when its time is over.

import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { failed, type Result, resultsIn } from './result.ts';

export interface PartRun {
  readonly results: readonly Result[];
  readonly seconds: number;
  /** What it wrote besides. */
  readonly messages: string;
}

/** A process that waits for a GPU that hangs cannot be killed: it is left alone after so long. */
const END_MS = 3000;

export async function runPart(
  program: string,
  args: readonly string[],
  limitSeconds: number,
): Promise<PartRun> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, ['--import', 'tsx', program, ...args], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = [collect(child.stdout), collect(child.stderr)] as const;
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal === null ? `exited ${code}` : `ended by ${signal}`));
  });
  const end = await within(limitSeconds * 1000, ended);
  // What it has left running would hold its output open.
  endGroup(child.pid);
  await within(END_MS, Promise.all(output.map(({ closed }) => closed)));
  for (const stream of [child.stdout, child.stderr]) stream.destroy();
  child.unref();
  const [written, messages] = output.map(({ text }) => text()) as [string, string];
  const results = resultsIn(written);
  if (end === null) results.push(failed('its time', `was not done after ${limitSeconds.toFixed(0)} s`));
  else if (end !== 'exited 0') results.push(failed('its end', `${end}: ${lastLines(messages)}`));
  return { results, seconds: (performance.now() - startedAt) / 1000, messages };
}

/** What comes of a stream, whether it ends or not. */
function collect(stream: Readable) {
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  return {
    closed: new Promise((resolve) => stream.once('close', resolve)),
    text: () => Buffer.concat(chunks).toString(),
  };
}

/** @returns null where `promise` takes longer. */
async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T | null> {
  const timer = new AbortController();
  try {
    return await Promise.race([promise, sleep(milliseconds, null, { signal: timer.signal })]);
  } finally {
    timer.abort();
  }
}

/** The part and all that it started. */
function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // All have ended.
  }
}

function lastLines(messages: string): string {
  return messages.trim().split('\n').slice(-12).join('\n');
}
