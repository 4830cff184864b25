// Each op once under compute-sanitizer, which finds reads and writes outside of memory, and races over shared memory.

import { spawnSync } from 'node:child_process';
import { digestsWith } from './gpu.ts';
import { failed, missing, passed, report } from './result.ts';

const PATHS = ['compute-sanitizer', '/usr/local/cuda/bin/compute-sanitizer'];
const FOUND = '86';
/** Of a tool; with what it watches, which would not end with it. */
const SECONDS = 70;
/** The compiler of tsx is a process too. What the driver refuses is told by the addon, and by no more than is asked. */
const WATCHED = [
  '--target-processes',
  'application-only',
  '--report-api-errors',
  'no',
  '--print-limit',
  '20',
];

const sanitizer = PATHS.find((path) => spawnSync(path, ['--version']).status === 0);
for (const tool of ['memcheck', 'racecheck']) {
  if (sanitizer === undefined) {
    report(missing(tool, `no compute-sanitizer: looked at ${PATHS.join(' and ')}`));
    continue;
  }
  const { digests, problem } = digestsWith({}, [
    ...['timeout', '--signal=KILL', String(SECONDS)],
    ...[sanitizer, ...WATCHED, '--tool', tool, '--error-exitcode', FOUND],
  ]);
  report(problem === null ? passed(tool, `nothing found in ${digests.size} ops`) : failed(tool, problem));
}
