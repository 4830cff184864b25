// Models over ranks and stages, on as many GPUs as there are, or on one that is shown as several: the answers of one, over the NCCL of this machine.

import { existsSync } from 'node:fs';
import { cudaDriver, loadNative } from '../../src/native/native.ts';
import { missing, report } from './result.ts';
import { type SeveralGpus, showSeveralGpus } from './several-gpus.ts';
import { ncclPath } from './stand-in.ts';
import { runTestFile } from './test-files.ts';

const FILES = ['test/engine/cuda-ranks.test.ts', 'test/engine/cuda-stages.test.ts'];
/** Two stages of two ranks. */
const GPUS = 4;
/** Of a file. */
const SECONDS = 75;

const device = loadNative().cudaDevice(cudaDriver(), 0);
if (device.missing !== undefined) report(missing('a GPU', device.missing));
else if (!existsSync(ncclPath())) report(missing('NCCL', `there is no ${ncclPath()}`));
else await runAll(device.count < GPUS ? showSeveralGpus(GPUS) : null);

async function runAll(shown: SeveralGpus | null): Promise<void> {
  const variables = shown?.variables ?? { SVC_NCCL: ncclPath() };
  try {
    for (const file of FILES) {
      for (const result of await runTestFile(file, { gpus: GPUS, variables, seconds: SECONDS }))
        report(result);
    }
  } finally {
    shown?.remove();
  }
}
