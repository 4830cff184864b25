// The tests of ops and of a model, on the driver of this machine in place of the emulated one.

import { spawnSync } from 'node:child_process';
import { z } from 'zod';
import { ROOT } from './gpu.ts';
import { failed, passed, report } from './result.ts';

/** Those that hold on any GPU. */
const FILES = ['test/ops/cuda.test.ts', 'test/engine/cuda.test.ts'];

const summary = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      message: z.string(),
      assertionResults: z.array(
        z.object({ fullName: z.string(), status: z.string(), failureMessages: z.array(z.string()) }),
      ),
    }),
  ),
});

const { stdout, stderr } = spawnSync(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', '--reporter=json', ...FILES],
  { cwd: ROOT, encoding: 'utf8', env: { ...process.env, SVC_TEST_GPU: '1' }, maxBuffer: 2 ** 26 },
);
const line = stdout.split('\n').find((one) => one.startsWith('{'));
if (line === undefined) report(failed('vitest', `${stdout}${stderr}`.slice(-2000)));
else {
  for (const { name, message, assertionResults } of summary.parse(JSON.parse(line)).testResults) {
    if (assertionResults.length === 0) report(failed(name, message));
    for (const { fullName, status, failureMessages } of assertionResults) {
      report(status === 'passed' ? passed(fullName) : failed(fullName, failureMessages.join('\n') || status));
    }
  }
}
