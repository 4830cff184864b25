// The tests of ops and of models, on the driver of this machine in place of the emulated one. Each file has a process of its own: after an error
// of a GPU nothing more can be computed in one.

import { execFile } from 'node:child_process';
import os from 'node:os';
import { z } from 'zod';
import { ROOT } from './gpu.ts';
import { failed, missing, passed, report } from './result.ts';

/** Those that hold on any GPU, what most models need first. */
const FILES = [
  'test/ops/cuda.test.ts',
  'test/engine/cuda.test.ts',
  'test/ops/cuda-split-k.test.ts',
  'test/engine/cuda-graphs.test.ts',
  'test/ops/cuda-formats.test.ts',
  'test/ops/cuda-experts.test.ts',
  'test/ops/cuda-latent.test.ts',
  'test/ops/cuda-lora.test.ts',
];
/** Of a file. */
const SECONDS = 80;

const summary = z.object({
  testResults: z.array(
    z.object({
      message: z.string(),
      assertionResults: z.array(
        z.object({ fullName: z.string(), status: z.string(), failureMessages: z.array(z.string()) }),
      ),
    }),
  ),
});

/** Each next file has the first place that becomes free. */
const waiting = [...FILES];
const places = Math.max(1, Math.min(waiting.length, Math.floor(os.availableParallelism() / 2)));
await Promise.all(
  Array.from({ length: places }, async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) await run(file);
  }),
);

async function run(file: string): Promise<void> {
  const { error, stdout, stderr } = await runVitest(file);
  const line = stdout.split('\n').find((one) => one.startsWith('{'));
  if (line === undefined) {
    report(failed(file, error?.message ?? `${stdout}${stderr}`.slice(-2000)));
    return;
  }
  for (const { message, assertionResults } of summary.parse(JSON.parse(line)).testResults) {
    if (assertionResults.length === 0) report(failed(file, message));
    for (const { fullName, status, failureMessages } of assertionResults) {
      if (status === 'passed') report(passed(fullName));
      else if (status === 'failed') report(failed(fullName, failureMessages.join('\n')));
      else report(missing(fullName, 'is for the emulated GPU'));
    }
  }
}

interface Ended {
  readonly error: Error | null;
  readonly stdout: string;
  readonly stderr: string;
}

function runVitest(file: string): Promise<Ended> {
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--reporter=json', file];
  const options = {
    cwd: ROOT,
    env: { ...process.env, SVC_TEST_GPU: '1' },
    maxBuffer: 2 ** 26,
    timeout: 1000 * SECONDS,
    killSignal: 'SIGKILL',
  } as const;
  return new Promise((resolve) => {
    execFile(process.execPath, args, options, (error, stdout, stderr) => resolve({ error, stdout, stderr }));
  });
}
