// The process that holds a lock, as the lock file names it: host, pid, and when the process began, for a pid is given again; the
// namespace of the pid, and a sign of life for those who are in another one.

import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { isLifeSign, pidNamespace } from './life-sign.ts';

/** Places behind the name of the program in /proc/<pid>/stat. */
const STATE = 0;
const START = 19;

interface ProcessState {
  /** One letter: Z is a process that has ended and that its parent has not asked about. */
  readonly state: string;
  /** In ticks since the machine began. */
  readonly start: string;
}

/** What this process writes into a lock. @param lifeSign of it; null where it has none. */
export function lockOwner(lifeSign: string | null): string {
  const { start } = stateOf(process.pid) ?? {};
  const namespace = pidNamespace();
  const seenElsewhere = start && namespace && lifeSign ? [namespace, lifeSign] : [];
  return [hostname(), process.pid, start ?? [], seenElsewhere].flat().join(' ');
}

/**
 * Whether the owner is known to have ended: one on another host is not. Earlier versions of svc wrote no start, or no sign of life.
 * A container with a network of its own is taken for the one that it was before it began again.
 */
export function hasEnded(owner: string): boolean {
  const [host, pid, start, namespace, lifeSign] = owner.split(' ');
  if (host !== hostname() || pid === undefined) return false;
  if (lifeSign !== undefined && namespace !== pidNamespace()) return isLifeSign(lifeSign) === false;
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
