// Kernels that leave the matrix unit alone must have the bytes of their emulation: multiply-adds are spelled out, and sums have one order.

import { existsSync } from 'node:fs';
import { digestsWith, EMULATED } from './gpu.ts';
import { failed, missing, passed, report } from './result.ts';

if (!existsSync(EMULATED.SVC_CUDA_DRIVER)) {
  const targets = 'build/cuda-emulator.so build/cuda-kernels-emulated.so';
  report(missing('the emulation', `make -C native ${targets}`));
} else {
  const [device, emulated] = [digestsWith({}), digestsWith(EMULATED)];
  for (const { problem } of [device, emulated]) if (problem !== null) report(failed('each op once', problem));
  const ops = [...emulated.digests.keys()];
  const [rows, others] = [ops.filter(isOfRows), ops.filter((op) => !isOfRows(op))];
  const differing = rows.filter((op) => device.digests.get(op) !== emulated.digests.get(op));
  for (const op of differing) report(failed(op, 'has other bytes than the emulation'));
  if (differing.length === 0) report(passed(`${rows.length} ops of rows`, 'have the bytes of the emulation'));
  const own = others.filter((op) => device.digests.get(op) !== emulated.digests.get(op));
  report(
    passed(
      `${others.length} products and attentions`,
      `${own.length} have bytes of their own, as the matrix unit may`,
    ),
  );
}

function isOfRows(op: string): boolean {
  return op.startsWith('row-');
}
