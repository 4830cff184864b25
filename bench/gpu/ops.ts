// The tests of ops and of models, on the driver of this machine in place of the emulated one.

import os from 'node:os';
import { report } from './result.ts';
import { runTestFile } from './test-files.ts';

/** Those that hold on any GPU, what most models need first. */
const FILES = [
  'test/ops/cuda.test.ts',
  'test/engine/cuda.test.ts',
  'test/ops/cuda-split-k.test.ts',
  'test/ops/cuda-combine-norm.test.ts',
  'test/ops/prepare-heads.test.ts',
  'test/engine/cuda-graphs.test.ts',
  'test/models/cuda-goldens.test.ts',
  'test/engine/cuda-images.test.ts',
  'test/ops/cuda-formats.test.ts',
  'test/ops/cuda-f16.test.ts',
  'test/ops/cuda-experts.test.ts',
  'test/ops/cuda-latent.test.ts',
  'test/ops/cuda-recurrent.test.ts',
  'test/ops/cuda-lora.test.ts',
];
/** Of a file. */
const SECONDS = 80;

/** Each next file has the first place that becomes free. */
const waiting = [...FILES];
const places = Math.max(1, Math.min(waiting.length, Math.floor(os.availableParallelism() / 2)));
await Promise.all(
  Array.from({ length: places }, async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      for (const result of await runTestFile(file, { gpus: 1, seconds: SECONDS })) report(result);
    }
  }),
);
