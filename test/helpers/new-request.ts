// A request to the engine thread with everything at its neutral value: a test names what it is about.

import { groupBadWords, type LogitRules } from '../../src/sampling/logit-rules.ts';
import type { NewRequest, SequenceSampling, StopRule } from '../../src/scheduler/request.ts';

export const GREEDY: SequenceSampling = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 0,
  sample: 0,
  numLogprobs: null,
};

export const ENDLESS: StopRule = { eosTokenId: null, stopTokenIds: [], minTokens: 0, maxTokens: 1_000_000 };

export const NO_RULES: LogitRules = {
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  biases: [],
  allowedTokenIds: null,
  minTokens: 0,
  endTokenIds: [],
  badWords: groupBadWords([]),
};

export interface NewRequestParts extends Partial<Omit<NewRequest, 'sampling' | 'stop' | 'rules'>> {
  readonly sampling?: Partial<SequenceSampling>;
  readonly stop?: Partial<StopRule>;
  readonly rules?: Partial<LogitRules> | null;
}

export function newRequest({ sampling, stop, rules, ...parts }: NewRequestParts): NewRequest {
  return {
    id: 0,
    promptTokenIds: [1],
    resumedTokenIds: [],
    transfer: null,
    priority: 0,
    caller: 0,
    group: 0,
    extraKeys: [],
    adapterId: null,
    numPromptLogprobs: null,
    ...parts,
    sampling: { ...GREEDY, ...sampling },
    stop: { ...ENDLESS, ...stop },
    rules: rules ? { ...NO_RULES, ...rules } : null,
  };
}
