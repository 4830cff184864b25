// The process that holds a lock, as the lock file names it: host, pid, and when the process began, for a pid is given again.

import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

/** Places behind the name of the program in /proc/<pid>/stat. */
const STATE = 0;
const START = 19;

interface ProcessState {
  /** One letter: Z is a process that has ended and that its parent has not asked about. */
  readonly state: string;
  /** In ticks since the machine began. */
  readonly start: string;
}

/** What this process writes into a lock. */
export function lockOwner(): string {
  return [hostname(), process.pid, stateOf(process.pid)?.start ?? []].flat().join(' ');
}

/** Whether the owner is known to have ended: one on another host is not. Earlier versions of svc wrote no start. */
export function hasEnded(owner: string): boolean {
  const [host, pid, start] = owner.split(' ');
  if (host !== hostname() || pid === undefined) return false;
  const found = stateOf(Number(pid));
  if (found === null) return !isRunning(Number(pid));
  if (found.state === 'Z') return true;
  // This process writes its start: a lock without one that names its pid is of another process, as in a container that began again.
  return start === undefined ? Number(pid) === process.pid : start !== found.start;
}

/** Null where there is no such process, or no /proc that shows it. */
function stateOf(pid: number): ProcessState | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name of the program is in brackets and may have spaces and brackets itself.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [state, start] = [fields[STATE], fields[START]];
    return state === undefined || start === undefined ? null : { state, start };
  } catch {
    return null;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs and belongs to somebody else.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
