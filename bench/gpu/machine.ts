// E0: what is there to build, load and measure with.

import { spawnSync } from 'node:child_process';
import os from 'node:os';
import { cudaDriver, loadNative } from '../../src/native/native.ts';
import { failed, missing, passed, report } from './result.ts';

/** Each prints what it is about in its first lines. */
const TOOLS: readonly (readonly [string, readonly string[]])[] = [
  ['nvidia-smi', ['--query-gpu=name,driver_version,memory.total,clocks.max.sm', '--format=csv,noheader']],
  ['nvcc', ['--version']],
  ['g++', ['--version']],
  ['make', ['--version']],
  ['ldd', ['--version']],
  ['compute-sanitizer', ['--version']],
  ['cuobjdump', ['--version']],
  ['ncu', ['--version']],
  ['python3', ['-c', "import torch; print('torch', torch.__version__, 'NCCL', torch.cuda.nccl.version())"]],
];

report(
  passed('processor', `${os.cpus()[0]?.model.trim()}, ${os.cpus().length} threads, kernel ${os.release()}`),
);
for (const [tool, args] of TOOLS) {
  const { error, status, stdout } = spawnSync(tool, args, { encoding: 'utf8', timeout: 15_000 });
  const lines = stdout?.trim().split('\n') ?? [];
  // nvcc says in its last line but one which release it is.
  const line = (tool === 'nvcc' ? lines.at(-2) : lines[0]) ?? '';
  report(
    error === undefined && status === 0
      ? passed(tool, line)
      : missing(tool, error?.message ?? `exits ${status}`),
  );
}
const libraries = spawnSync('sh', ['-c', "ldconfig -p | grep -E 'libcuda|libnvrtc|libnccl'"], {
  encoding: 'utf8',
});
report(
  passed('libraries', libraries.stdout.trim().replaceAll(/\n\s*/g, '\n') || 'the loader knows none of CUDA'),
);
const device = loadNative().cudaDevice(cudaDriver(), 0);
report(
  device.missing === undefined
    ? passed(
        'GPU',
        `${device.name}, sm_${device.computeCapability}, ${(device.freeBytes / 2 ** 30).toFixed(1)} of ` +
          `${(device.totalBytes / 2 ** 30).toFixed(1)} GiB free`,
      )
    : failed('GPU', device.missing),
);
