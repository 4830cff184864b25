// Models over ranks and stages, on as many GPUs as there are, or on one that is shown as several: the answers of one, over the NCCL of this machine.

import { existsSync } from 'node:fs';
import { cudaDriver, loadNative } from '../../src/native/native.ts';
import { missing, report } from './result.ts';
import { showSeveralGpus } from './several-gpus.ts';
import { missingStandIn, ncclPath } from './stand-in.ts';
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
else if (device.count >= GPUS) await runAll({ SVC_NCCL: ncclPath() });
else await runOnOne();

async function runOnOne(): Promise<void> {
  const shown = showSeveralGpus(GPUS);
  if (shown === null) return report(missingStandIn('several GPUs'));
  try {
    await runAll(shown.variables);
  } finally {
    shown.remove();
  }
}

async function runAll(variables: Readonly<Record<string, string>>): Promise<void> {
  for (const { file, seconds } of FILES) {
    for (const result of await runTestFile(file, { gpus: GPUS, variables, seconds })) report(result);
  }
}
