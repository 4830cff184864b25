// What `profile` watches: prompts and decode steps of a model with made-up weights, launched op by op. Prints a line for each step.
//
//     node --import tsx bench/gpu/profile-steps.ts <folder of a model> <tokens of a prompt> <sequences>...

import { addSequence, computedTokens, STEP_TOKENS, startMadeUpModel } from './made-up-model.ts';

const [modelPath = '', ...numbers] = process.argv.slice(2);
const [promptTokens = 0, ...sequences] = numbers.map(Number);

/** The sequences take turns with them, so that few are computed; their keys and values are more than a cache holds. */
const PROMPTS = 32;
const DECODE_STEPS = 2;

const core = await startMadeUpModel(modelPath, {
  enforceEager: true,
  maxModelLen: 2 * promptTokens,
  maxNumSeqs: Math.max(...sequences),
});
try {
  for (const count of sequences) {
    // The first ones get tokens while the last ones' prompts are computed.
    const maxTokens = DECODE_STEPS + Math.ceil((count * promptTokens) / STEP_TOKENS);
    for (let id = 0; id < count; id += 1) {
      addSequence(core, { id, prompt: id % PROMPTS, promptTokens, maxTokens });
    }
    while (core.hasUnfinished) {
      const { running } = core.stats;
      const before = computedTokens(core);
      const isFinished = (core.step() ?? []).length > 0;
      const prompted = computedTokens(core) - before;
      // The first call only launches a step.
      if (isFinished) console.log(prompted > 0 ? `prefill of ${prompted}` : `decode of ${running}`);
    }
  }
} finally {
  core.close();
}
