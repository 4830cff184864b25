// Each op once under compute-sanitizer, which finds reads and writes outside of memory, and races over shared memory.

import { spawnSync } from 'node:child_process';
import { digestsWith } from './gpu.ts';
import { failed, missing, passed, report } from './result.ts';

const PATHS = ['compute-sanitizer', '/usr/local/cuda/bin/compute-sanitizer'];
const FOUND = '86';

const sanitizer = PATHS.find((path) => spawnSync(path, ['--version']).status === 0);
for (const tool of ['memcheck', 'racecheck']) {
  if (sanitizer === undefined) {
    report(missing(tool, `no compute-sanitizer: looked at ${PATHS.join(' and ')}`));
    continue;
  }
  const { digests, problem } = digestsWith({}, [sanitizer, '--tool', tool, '--error-exitcode', FOUND]);
  report(problem === null ? passed(tool, `nothing found in ${digests.size} ops`) : failed(tool, problem));
}
