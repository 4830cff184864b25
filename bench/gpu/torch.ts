// The yardstick: what PyTorch reaches on this device, where it is installed.

import { spawnSync } from 'node:child_process';
import { ROOT } from './gpu.ts';
import { failed, missing, report } from './result.ts';

const hasTorch =
  spawnSync('python3', ['-c', 'import torch; assert torch.cuda.is_available()'], { timeout: 20_000 })
    .status === 0;
if (!hasTorch) report(missing('PyTorch', 'python3 has no torch that sees a GPU'));
for (const name of hasTorch ? ['products', 'nccl'] : []) {
  const { error, status, stdout, stderr } = spawnSync(
    'python3',
    [`${ROOT}/bench/gpu/torch_yardsticks.py`, name],
    {
      encoding: 'utf8',
      timeout: 45_000,
    },
  );
  process.stdout.write(stdout);
  if (error !== undefined || status !== 0) {
    report(failed(name, error?.message ?? `exited ${status}: ${stderr.trim().slice(-1500)}`));
  }
}
