// A program on a real pseudo-terminal, which `script` of util-linux opens: keys go in, what the screen gets comes out.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

const DEADLINE_MS = 30_000;

/** Why tests on a terminal cannot run here; null where they can. */
export const noTerminal: string | null =
  spawnSync('script', ['--version']).status === 0 ? null : 'script of util-linux is not installed';

export const KEYS = {
  enter: '\r',
  ctrlC: '\x03',
  ctrlD: '\x04',
  up: '\x1b[A',
  altEnter: '\x1b\r',
  paste: (text: string) => `\x1b[200~${text}\x1b[201~`,
} as const;

export interface TerminalOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly columns?: number;
  /** Shell command that follows on the same terminal. */
  readonly after?: string;
}

export class TerminalProcess {
  /** Of `script`, not of the program. */
  readonly child: ChildProcess;
  /** Everything that was written to the screen, escape sequences included. */
  output = '';
  /** The exit code of the program; 128 + n where signal n ended it. */
  readonly exitCode: Promise<number>;
  /** Where in `text` the next `says` begins to look. */
  #seen = 0;

  /** @param args of Node, as an array: the program and its arguments. */
  constructor(args: readonly string[], { env = {}, columns = 80, after }: TerminalOptions = {}) {
    const command = [process.execPath, ...args].map(shellWord).join(' ');
    // A terminal that no window belongs to has no size of its own.
    const size = `stty cols ${columns} rows 24`;
    const script = after === undefined ? `${size}; exec ${command}` : `${size}; ${command}; ${after}`;
    this.child = spawn('script', ['--quiet', '--return', '--flush', '--command', script, '/dev/null'], {
      env: { ...process.env, TERM: 'xterm', SHELL: '/bin/sh', ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.output += text;
    });
    this.exitCode = once(this.child, 'close').then(([code]) => Number(code));
  }

  type(...keys: readonly string[]): void {
    this.child.stdin?.write(keys.join(''));
  }

  /** Waits until the screen, after what the last call found, shows `pattern`. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    const deadline = performance.now() + DEADLINE_MS;
    while (performance.now() < deadline) {
      const match = pattern.exec(this.text.slice(this.#seen));
      if (match !== null) {
        this.#seen += match.index + match[0].length;
        return match;
      }
      if (this.child.exitCode !== null) break;
      await sleep(10);
    }
    throw new Error(`${pattern} did not come:\n${JSON.stringify(this.text.slice(this.#seen))}`);
  }

  /** What it has shown, without escape sequences. */
  get text(): string {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
    return this.output.replace(/\x1b(\[[?\d;]*([A-Za-z]|$)|[78]|$)/g, '').replace(/\r+\n/g, '\n');
  }
}

function shellWord(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
