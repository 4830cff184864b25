// Kernels that leave the matrix unit alone must have the bytes of their emulation: multiply-adds are spelled out, and sums have one order. The others must
// have its numbers, but for what rounding in another order changes.

import { existsSync } from 'node:fs';
import { digestsWith, EMULATED } from './gpu.ts';
import { failed, missing, passed, report } from './result.ts';

/** Of what lies between two neighbours of bfloat16 either may come out. */
const TOLERANCE = 2 ** -7;

if (!existsSync(EMULATED.SVC_CUDA_DRIVER)) {
  const targets = 'build/cuda-emulator.so build/cuda-kernels-emulated.so';
  report(missing('the emulation', `make -C native ${targets}`));
} else {
  const [device, emulated] = [digestsWith({}), digestsWith(EMULATED)];
  for (const { problem } of [device, emulated]) if (problem !== null) report(failed('each op once', problem));
  compareBytes(device.digests, emulated.digests);
  compareNumbers(device.numbers, emulated.numbers);
}

function compareBytes(device: ReadonlyMap<string, string>, emulated: ReadonlyMap<string, string>): void {
  const rows = [...emulated.keys()].filter((op) => op.startsWith('row-'));
  const differing = rows.filter((op) => device.get(op) !== emulated.get(op));
  for (const op of differing) report(failed(op, 'has other bytes than the emulation'));
  if (differing.length === 0) report(passed(`${rows.length} ops of rows`, 'have the bytes of the emulation'));
}

function compareNumbers(
  device: ReadonlyMap<string, Float32Array>,
  emulated: ReadonlyMap<string, Float32Array>,
): void {
  const differing = [...emulated].flatMap(([op, expected]) => {
    const got = device.get(op);
    const at = expected.findIndex((value, i) => !isClose(got?.[i], value));
    return at < 0 ? [] : [failed(op, `has ${got?.[at]} where the emulation has ${expected[at]}`)];
  });
  for (const result of differing) report(result);
  if (differing.length > 0) return;
  report(
    passed(`${emulated.size} products and attentions`, 'have the numbers of the emulation, but for rounding'),
  );
}

/** Not so, too, where one of them is no number. */
function isClose(got: number | undefined, expected: number): boolean {
  return got !== undefined && Math.abs(got - expected) <= TOLERANCE * (1 + Math.abs(expected));
}
