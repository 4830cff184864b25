// What guessing tokens ahead gains where an answer repeats what was said, and what it costs where it does not: decode on
// random weights, with and without, in turn on the same weights.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { SpeculativeConfig } from '../src/config/speculative-config.ts';
import { EngineCore } from '../src/engine/engine-core.ts';
import { loadRunner } from '../src/runner/load-runner.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import { type NewRequestParts, newRequest } from '../test/helpers/new-request.ts';
import { writeRandomModel } from './random-model.ts';
import type { Figure, Section } from './report.ts';

const NGRAM: SpeculativeConfig = {
  method: 'ngram',
  numSpeculativeTokens: 5,
  promptLookupMax: 4,
  promptLookupMin: 2,
};
const PROMPT_TOKENS = 128;
const ANSWER_TOKENS = 96;
const RUNS = 5;

interface Workload {
  readonly name: string;
  readonly goal: string | null;
  /** One a sequence, which run together. */
  readonly parts: readonly NewRequestParts[];
}

const prompt = (tokenAt: (index: number) => number): number[] =>
  Array.from({ length: PROMPT_TOKENS }, (_, index) => tokenAt(index));
const scattered = prompt((index) => (index * 7919) % 151_000);
/** Few tokens by chance: pairs of them come again and again, and what follows is another one each time. */
const FEW_TOKENS = Int32Array.from({ length: 24 }, (_, index) => 1000 + index);

const WORKLOADS: readonly Workload[] = [
  // Random weights quote nothing by themselves. Here seven of eight tokens are the same one, and the others come by
  // chance: as in a summary, most of what comes next was said before, and every few tokens it is something else.
  {
    name: 'an answer that quotes what was said, with something new now and then',
    goal: '>= 1.5',
    parts: [
      {
        promptTokenIds: scattered,
        sampling: { temperature: 5, seed: 1 },
        rules: { allowedTokenIds: Int32Array.of(1000, 1001), biases: [[1000, 5 * Math.log(7)]] },
      },
    ],
  },
  {
    name: 'an answer that never repeats anything',
    goal: '>= 0.97',
    parts: [{ promptTokenIds: scattered, sampling: { temperature: 5, seed: 1 } }],
  },
  {
    name: 'an answer whose pairs of tokens repeat, and nothing else',
    goal: null,
    parts: [
      {
        promptTokenIds: prompt((index) => FEW_TOKENS[(index * index) % 23]!),
        sampling: { temperature: 5, seed: 1 },
        rules: { allowedTokenIds: FEW_TOKENS },
      },
    ],
  },
];

/** Drafts of the model itself, all right: as many passes over its weights as tokens, so that 1 is what can be reached. */
const DRAFTED: readonly Workload[] = [1, 2].map((count) => ({
  name: `${count} at a time, the model as its own draft model`,
  goal: '>= 0.85',
  parts: Array.from({ length: count }, (_, seed) => ({
    promptTokenIds: prompt((index) => (index * 7919 + seed) % 151_000),
  })),
}));

export async function speculationSection(): Promise<Section> {
  const modelPath = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  try {
    writeRandomModel(modelPath, 'qwen2.5-0.5b');
    const draft = { method: 'draft_model', numSpeculativeTokens: 3, model: modelPath } as const;
    const config = {
      ...ENGINE_DEFAULTS,
      modelPath,
      maxModelLen: 1024,
      maxNumSeqs: 4,
      enablePrefixCaching: false,
    };
    const runner = await loadRunner({ ...config, speculative: draft });
    const plain = new EngineCore(runner, config);
    const quoting = new EngineCore(runner, { ...config, speculative: NGRAM });
    const drafting = new EngineCore(runner, { ...config, speculative: draft });
    const figures = [
      ...WORKLOADS.flatMap((workload) => compare(workload, plain, quoting)),
      ...DRAFTED.flatMap((workload) => compare(workload, plain, drafting)),
    ];
    runner.close();
    const notes = [
      `Decode, 0.5B shape, random weights, ${ANSWER_TOKENS} tokens after ${PROMPT_TOKENS}, of one sequence where no more are named: speed ` +
        'with drafts (n-grams, but for the last two) divided by speed without, the best of several runs each, in turn.',
    ];
    return { title: 'Tokens guessed ahead', figures, notes };
  } finally {
    rmSync(modelPath, { recursive: true });
  }
}

function compare({ name, goal, parts }: Workload, plain: EngineCore, guessing: EngineCore): Figure[] {
  const seconds = { plain: Number.POSITIVE_INFINITY, guessing: Number.POSITIVE_INFINITY };
  const before = guessing.stats.speculation!;
  for (let run = 0; run < RUNS; run += 1) {
    seconds.plain = Math.min(seconds.plain, secondsOf(plain, parts));
    seconds.guessing = Math.min(seconds.guessing, secondsOf(guessing, parts));
  }
  const { draftTokens, acceptedTokens } = guessing.stats.speculation!;
  const drafted = draftTokens - before.draftTokens;
  const accepted = acceptedTokens - before.acceptedTokens;
  return [
    { name, value: seconds.plain / seconds.guessing, unit: 'times', limit: null, goal },
    {
      name: '- without',
      value: (parts.length * (ANSWER_TOKENS - 1)) / seconds.plain,
      unit: 'tokens/s',
      limit: null,
      goal: null,
    },
    { name: '- guessed', value: drafted / RUNS, unit: 'tokens', limit: null, goal: null },
    { name: '- of these right', value: accepted / RUNS, unit: 'tokens', limit: null, goal: null },
  ];
}

let numRequests = 0;

/** From the first token of the answers to the last one. */
function secondsOf(core: EngineCore, parts: Workload['parts']): number {
  for (const part of parts) {
    // The cores share an executor, which knows requests by their ids.
    numRequests += 1;
    core.scheduler.add(newRequest({ id: numRequests, ...part, stop: { maxTokens: ANSWER_TOKENS } }));
  }
  let firstAt = 0;
  let lastAt = 0;
  while (core.hasUnfinished) {
    core.awaitPlanPoint();
    for (const { at, outputs } of core.step() ?? []) {
      if (outputs.length === 0) continue;
      firstAt ||= at;
      lastAt = at;
    }
  }
  return (lastAt - firstAt) / 1000;
}
