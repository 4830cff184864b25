// A model of made-up weights on the GPU, and sequences for it.

import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { ENGINE_DEFAULTS } from '../../test/helpers/engine-defaults.ts';
import { newRequest } from '../../test/helpers/new-request.ts';

/** Tokens that one step computes at most. */
export const STEP_TOKENS = ENGINE_DEFAULTS.maxNumBatchedTokens;

/** Of the shape that the config.json of a folder tells. */
export function startMadeUpModel(modelPath: string, options: Partial<EngineConfig>): Promise<EngineCore> {
  return EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath,
    loadFormat: 'dummy',
    device: 'cuda',
    dtype: 'bfloat16',
    skipTokenizerInit: true,
    ...options,
  });
}

/** Sequences with the same number of `prompt` have the same one. */
export interface MadeUpSequence {
  readonly id: number;
  readonly prompt: number;
  readonly promptTokens: number;
  readonly maxTokens: number;
}

export function addSequence(core: EngineCore, { id, prompt, promptTokens, maxTokens }: MadeUpSequence): void {
  const { vocabSize } = core.executor.info;
  const promptTokenIds = Array.from(
    { length: promptTokens },
    (_, at) => (7919 * at + 104729 * prompt + 3) % vocabSize,
  );
  core.scheduler.add(newRequest({ id, promptTokenIds, stop: { stopTokenIds: [], minTokens: 0, maxTokens } }));
}

/** Of prompts, those that were found in the prefix cache aside. */
export function computedTokens({ stats }: EngineCore): number {
  return stats.promptTokens - stats.cachedPromptTokens;
}
