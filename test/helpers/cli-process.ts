// The command line as a user runs it: a process of its own, its output and its exit code.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { SVC_COMMAND } from './svc-command.ts';

const DEADLINE_MS = 40_000;

export class CliProcess {
  readonly child: ChildProcess;
  stdout = '';
  stderr = '';
  /** The exit code; 128 + n where signal n ended it. */
  readonly exitCode: Promise<number>;

  /** @param command what svc is started by; its process leads a group, to which a test may send what a terminal sends. */
  constructor(
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
    [program, ...first]: readonly [string, ...string[]] = [process.execPath, ...SVC_COMMAND],
  ) {
    this.child = spawn(program, [...first, ...args], {
      detached: true,
      env: { ...process.env, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.exitCode = once(this.child, 'close').then(([code, signal]) =>
      Number(code ?? (signal === 'SIGKILL' ? 137 : 143)),
    );
  }

  /** Waits until its output, both streams together, matches. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    const deadline = performance.now() + DEADLINE_MS;
    while (performance.now() < deadline) {
      const match = pattern.exec(this.stderr + this.stdout);
      if (match !== null) return match;
      if (this.child.exitCode !== null) break;
      await sleep(20);
    }
    throw new Error(`${pattern} did not come:\n${this.stderr}${this.stdout}`);
  }
}

/** Runs `svc ...args` to its end. */
export async function runCli(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const cli = new CliProcess(args, env);
  cli.child.stdin?.end();
  const code = await cli.exitCode;
  return { code, stdout: cli.stdout, stderr: cli.stderr };
}
