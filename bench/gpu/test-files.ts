// Tests of this project on the driver of this machine. Each file has a process of its own: after an error of a GPU nothing more can be
// computed in one.

import { execFile } from 'node:child_process';
import { z } from 'zod';
import { ROOT } from './gpu.ts';
import { failed, missing, passed, type Result } from './result.ts';

export interface TestRun {
  /** How many GPUs the driver shows. */
  readonly gpus: number;
  readonly variables?: Readonly<Record<string, string>>;
  /** Of a file. */
  readonly seconds: number;
}

const assertion = z.object({
  fullName: z.string(),
  status: z.string(),
  failureMessages: z.array(z.string()),
});
type Assertion = z.infer<typeof assertion>;
const summary = z.object({
  testResults: z.array(z.object({ message: z.string(), assertionResults: z.array(assertion) })),
});

/** What each test of `file` has come to. */
export async function runTestFile(file: string, run: TestRun): Promise<Result[]> {
  const { error, stdout, stderr } = await runVitest(file, run);
  const line = stdout.split('\n').find((one) => one.startsWith('{'));
  if (line === undefined) {
    const reason = `ended before its tests had: ${error?.message ?? ''}\n${stderr}`.slice(-2000);
    return [...doneIn(stdout), failed(file, reason)];
  }
  return summary
    .parse(JSON.parse(line))
    .testResults.flatMap(({ message, assertionResults }) =>
      assertionResults.length === 0 ? [failed(file, message)] : assertionResults.map(resultOf),
    );
}

/** Of a file that was stopped: the tests that have come to an end. */
function doneIn(stdout: string): Result[] {
  return [...stdout.matchAll(/^ ([✓×]) (?:\|[^|]*\| )?(.*?)(?: +\d+ms)?$/gmu)].map(([, mark, name]) =>
    mark === '✓' ? passed(name!) : failed(name!, 'see the messages'),
  );
}

function resultOf({ fullName, status, failureMessages }: Assertion): Result {
  if (status === 'passed') return passed(fullName);
  if (status === 'failed') return failed(fullName, failureMessages.join('\n'));
  return missing(fullName, 'is for the emulated GPU');
}

interface Ended {
  readonly error: Error | null;
  readonly stdout: string;
  readonly stderr: string;
}

function runVitest(file: string, { gpus, variables, seconds }: TestRun): Promise<Ended> {
  // A test that waits for a GPU does not end with the process that started it: all of the group do.
  const args = ['--signal=KILL', String(seconds), process.execPath, 'node_modules/vitest/vitest.mjs', 'run'];
  args.push('--reporter=json', '--reporter=verbose', file);
  const options = {
    cwd: ROOT,
    env: { ...process.env, ...variables, SVC_TEST_GPUS: String(gpus), NO_COLOR: '1' },
    maxBuffer: 2 ** 26,
  } as const;
  return new Promise((resolve) => {
    execFile('timeout', args, options, (error, stdout, stderr) => resolve({ error, stdout, stderr }));
  });
}
