// Whether the tokenizer library survives a tokenizer.json. On some that are damaged it panics, in part only once it
// encodes, and a panic ends the process: so a process of its own tries first, while the weights are being loaded.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ENTRY = fileURLToPath(new URL('./probe-process.mjs', import.meta.url));
/** The largest published tokenizers take a second or two. */
const DEADLINE_MS = 60_000;
/** More than any published one takes; a rule that makes a text grow may ask for all memory there is. */
const MOST_BYTES = 4 * 2 ** 30;
const LOOK_EVERY_MS = 100;
const PAGE_BYTES = 4096;
/** Characters of the process's output that are kept. */
const MOST_SAID = 4096;

/**
 * @param text of tokenizer.json.
 * @param mostBytes memory of the process in which it is tried.
 * @returns the reason why the library crashed; null where it did not, or where no process could be started.
 */
export function probeTokenizer(text: string, mostBytes = MOST_BYTES): Promise<string | null> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [ENTRY], {
      stdio: ['pipe', 'ignore', 'pipe'],
      // Neither a debugger nor a loader of this process is for that one.
      env: { ...process.env, NODE_OPTIONS: '', RUST_BACKTRACE: '0' },
      timeout: DEADLINE_MS,
      killSignal: 'SIGKILL',
    });
    let said = '';
    let isTooLarge = false;
    const looking = setInterval(() => {
      isTooLarge ||= memoryOf(child.pid) > mostBytes;
      if (isTooLarge) child.kill('SIGKILL');
    }, LOOK_EVERY_MS);
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      if (said.length < MOST_SAID) said += text;
    });
    // Ignore: a process that dies before it has read everything is reported by its exit.
    child.stdin.on('error', () => {}).end(text);
    child.once('error', () => {
      clearInterval(looking);
      resolve(null);
    });
    child.once('close', (_, signal) => {
      clearInterval(looking);
      const cause = isTooLarge
        ? `it takes more than ${mostBytes / 2 ** 20} MiB for a short text`
        : causeOfDeath(signal, child.killed, said);
      resolve(cause);
    });
  });
}

/** Resident bytes of a process; 0 where it has ended. */
function memoryOf(pid: number | undefined): number {
  try {
    const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]);
    return pages * PAGE_BYTES;
  } catch {
    return 0;
  }
}

/** Rust says `thread ... panicked at FILE:LINE:COLUMN:` and then, in a line of its own, why; then it aborts. */
function causeOfDeath(signal: NodeJS.Signals | null, isLate: boolean, said: string): string | null {
  if (isLate) return `it did not encode a short text in ${DEADLINE_MS / 1000} seconds`;
  if (signal === 'SIGABRT') return /panicked at .*\n(.*)/.exec(said)?.[1] ?? 'it aborts';
  return signal === 'SIGSEGV' ? 'it crashes' : null;
}
