// CPU time of a process by what its threads do: the kernel counts each in nanoseconds, and names ours.

import { readdirSync, readFileSync } from 'node:fs';

/** Seconds. */
export interface ThreadCpu {
  readonly main: number;
  /** Those that compute. */
  readonly kernels: number;
  readonly engine: number;
  /** What JavaScript's runtime runs beside it all: compiling, collecting garbage, input and output. */
  readonly helpers: number;
}

/** Seconds since the process began, by thread: `main`, `kernels`, or the number of one without a name of its own. */
export type ThreadTimes = ReadonlyMap<string, number>;

export function threadTimes(pid: number): ThreadTimes {
  const times = new Map<string, number>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const read = (file: string): string => readFileSync(`/proc/${pid}/task/${thread}/${file}`, 'utf8');
    // The main thread has the number of the process.
    const unnamed = thread === String(pid) ? 'main' : thread;
    const role = read('comm').startsWith('svc-kernel') ? 'kernels' : unnamed;
    times.set(role, (times.get(role) ?? 0) + Number(read('schedstat').split(' ')[0]) / 1e9);
  }
  return times;
}

/** The engine thread is that of the others which worked most. */
export function cpuSince(before: ThreadTimes, pid: number): ThreadCpu {
  const since = new Map([...threadTimes(pid)].map(([role, time]) => [role, time - (before.get(role) ?? 0)]));
  const { main = 0, kernels = 0, ...rest } = Object.fromEntries(since);
  const others = Object.values(rest);
  const engine = Math.max(0, ...others);
  return { main, kernels, engine, helpers: others.reduce((sum, seconds) => sum + seconds, 0) - engine };
}
