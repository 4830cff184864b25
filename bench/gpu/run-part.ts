// Runs one part in a process group of its own, which is ended when its time is over.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { failed, type Result, resultsIn } from './result.ts';

export interface PartRun {
  readonly results: readonly Result[];
  readonly seconds: number;
  /** What it wrote besides. */
  readonly messages: string;
}

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
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    endGroup(child.pid);
  }, limitSeconds * 1000);
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code, signal] = await once(child, 'exit');
  clearTimeout(timer);
  // What it has left running would hold its output open.
  endGroup(child.pid);
  const [written, messages] = await output;
  const results = resultsIn(written);
  if (isLate) results.push(failed('its time', `was not done after ${limitSeconds.toFixed(0)} s`));
  else if (code !== 0) results.push(failed('its end', `${describe(code, signal)}: ${lastLines(messages)}`));
  return { results, seconds: (performance.now() - startedAt) / 1000, messages };
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

function describe(code: unknown, signal: unknown): string {
  return signal === null ? `exited ${code}` : `ended by ${signal}`;
}

function lastLines(messages: string): string {
  return messages.trim().split('\n').slice(-12).join('\n');
}
