// CPU time of a process by what its threads do: the kernel counts each in nanoseconds, and names ours.

import { readdirSync, readFileSync } from 'node:fs';

export interface ThreadCpu {
  /** Seconds since the process began, like all. */
  readonly main: number;
  /** Those that compute. */
  readonly kernels: number;
  /** The engine's own, and what JavaScript's runtime runs beside it. */
  readonly engine: number;
}

export function threadCpu(pid: number): ThreadCpu {
  const cpu = { main: 0, kernels: 0, engine: 0 };
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const read = (file: string): string => readFileSync(`/proc/${pid}/task/${thread}/${file}`, 'utf8');
    // The main thread has the number of the process.
    const role =
      thread === String(pid) ? 'main' : read('comm').startsWith('svc-kernel') ? 'kernels' : 'engine';
    cpu[role] += Number(read('schedstat').split(' ')[0]) / 1e9;
  }
  return cpu;
}

export function cpuSince(before: ThreadCpu, pid: number): ThreadCpu {
  const now = threadCpu(pid);
  return {
    main: now.main - before.main,
    kernels: now.kernels - before.kernels,
    engine: now.engine - before.engine,
  };
}
