// E2: kernels that were compiled where no GPU is, as machine code and as PTX for older drivers, and whether both compute the same.

import { existsSync } from 'node:fs';
import { builtCudaKernels } from '../../src/native/native.ts';
import { digestsWith, ROOT } from './gpu.ts';
import { failed, measured, missing, passed, report } from './result.ts';

const startedAt = performance.now();
const kernels = process.env.SVC_CUDA_KERNELS ?? builtCudaKernels();
const machineCode = digestsWith({});
if (machineCode.problem !== null) report(failed(kernels, machineCode.problem));
else
  report(measured(kernels, (performance.now() - startedAt) / 1000, 's', { note: 'to load and run each op' }));

const ptx = `${ROOT}/native/build/cuda-kernels.ptx`;
if (!existsSync(ptx)) report(missing('PTX for older drivers', `no ${ptx}`));
else {
  const begunAt = performance.now();
  const compiled = digestsWith({ SVC_CUDA_KERNELS: ptx });
  if (compiled.problem !== null) report(failed(ptx, compiled.problem));
  else {
    report(
      measured(ptx, (performance.now() - begunAt) / 1000, 's', { note: 'to compile by the driver, and run' }),
    );
    const other = [...machineCode.digests].filter(([op, digest]) => compiled.digests.get(op) !== digest);
    const names = other.map(([op]) => op).join(', ');
    report(
      passed(
        'PTX against machine code',
        names === '' ? 'the same bytes of each op' : `other bytes of ${names}`,
      ),
    );
  }
}
