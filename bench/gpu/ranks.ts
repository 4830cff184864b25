// Models over ranks and stages, on as many GPUs as there are, or on one that is shown as several: the answers of one, over the NCCL of this machine.

import { existsSync } from 'node:fs';
import { cudaDriver, loadNative } from '../../src/native/native.ts';
import { missing, report } from './result.ts';
import { type SeveralGpus, showSeveralGpus } from './several-gpus.ts';
import { ncclPath } from './stand-in.ts';
import { runTestFile } from './test-files.ts';

/** Ranks have twice as many models, and meet in each of their layers. */
const FILES = [
  { file: 'test/engine/cuda-ranks.test.ts', seconds: 100 },
  { file: 'test/engine/cuda-stages.test.ts', seconds: 55 },
];
/** Two stages of two ranks. */
const GPUS = 4;

const device = loadNative().cudaDevice(cudaDriver(), 0);
if (device.missing !== undefined) report(missing('a GPU', device.missing));
else if (!existsSync(ncclPath())) report(missing('NCCL', `there is no ${ncclPath()}`));
else await runAll(device.count < GPUS ? showSeveralGpus(GPUS) : null);

async function runAll(shown: SeveralGpus | null): Promise<void> {
  const variables = shown?.variables ?? { SVC_NCCL: ncclPath() };
  try {
    for (const { file, seconds } of FILES) {
      for (const result of await runTestFile(file, { gpus: GPUS, variables, seconds })) report(result);
    }
  } finally {
    shown?.remove();
  }
}
