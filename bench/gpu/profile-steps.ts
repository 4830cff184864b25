// What `profile` watches: prompts and decode steps of a model with made-up weights, launched op by op. Prints a line for each step.
//
//     node --import tsx bench/gpu/profile-steps.ts <folder of a model> <sequences>...

import { EngineCore } from '../../src/engine/engine-core.ts';
import { ENGINE_DEFAULTS } from '../../test/helpers/engine-defaults.ts';
import { newRequest } from '../../test/helpers/new-request.ts';

const [modelPath = '', ...counts] = process.argv.slice(2);
const sequences = counts.map(Number);

const CONTEXT = 1024;
/** The sequences take turns with them, so that few are computed; their keys and values are more than a cache holds. */
const PROMPTS = 32;
const DECODE_STEPS = 2;

const core = await EngineCore.start({
  ...ENGINE_DEFAULTS,
  modelPath,
  loadFormat: 'dummy',
  device: 'cuda',
  dtype: 'bfloat16',
  skipTokenizerInit: true,
  enforceEager: true,
  maxModelLen: 2 * CONTEXT,
  maxNumSeqs: Math.max(...sequences),
  // Nothing is computed to see what is left for it.
  kvCacheMemoryBytes: 8 * 2 ** 30,
});
try {
  for (const count of sequences) {
    for (let id = 0; id < count; id += 1) {
      const promptTokenIds = Array.from(
        { length: CONTEXT },
        (_, at) => (7919 * at + 104729 * (id % PROMPTS) + 3) % 32000,
      );
      // The first ones get tokens while the last ones' prompts are computed.
      const maxTokens = DECODE_STEPS + Math.ceil((count * CONTEXT) / ENGINE_DEFAULTS.maxNumBatchedTokens);
      core.scheduler.add(
        newRequest({ id, promptTokenIds, stop: { stopTokenIds: [], minTokens: 0, maxTokens } }),
      );
    }
    while (core.hasUnfinished) {
      const { running } = core.stats;
      const before = core.stats.promptTokens - core.stats.cachedPromptTokens;
      const isFinished = (core.step() ?? []).length > 0;
      const prompted = core.stats.promptTokens - core.stats.cachedPromptTokens - before;
      // The first call only launches a step.
      if (isFinished) console.log(prompted > 0 ? `prefill of ${prompted}` : `decode of ${running}`);
    }
  }
} finally {
  core.close();
}
