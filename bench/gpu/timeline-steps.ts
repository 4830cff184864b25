// What a timeline is written of: decode steps of a model with made-up weights, as they are served. Prints when each was asked for, in microseconds of the
// monotonic clock.
//
//     node --import tsx bench/gpu/timeline-steps.ts <folder of a model> <tokens of a prompt> <sequences>

import { addSequence, startMadeUpModel } from './made-up-model.ts';

const [modelPath = '', promptTokens = 0, count = 0] = process.argv
  .slice(2)
  .map((word, at) => (at === 0 ? word : Number(word))) as [string, number, number];

/** In the first ones graphs are made, and JavaScript's compiler is busy. */
const steps = Math.floor(promptTokens / 2);

const core = await startMadeUpModel(modelPath, { maxModelLen: 2 * promptTokens, maxNumSeqs: count });
try {
  for (let id = 0; id < count; id += 1) {
    addSequence(core, { id, prompt: id, promptTokens, maxTokens: promptTokens });
  }
  while (core.stats.promptTokens < count * promptTokens) core.step();
  for (let step = 0; step < steps; step += 1) {
    console.log(Number(process.hrtime.bigint()) / 1000);
    core.step();
  }
} finally {
  core.close();
}
