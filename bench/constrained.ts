// What constrained requests cost the others: steps of a batch of 16 sequences in which none, one or half of them must be JSON
// of a schema, in turn in one process, on random weights in the shape of a real model.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { EngineCore } from '../src/engine/engine-core.ts';
import type { CompiledConstraint } from '../src/scheduler/automata.ts';
import { compile } from '../src/structured-output/compile.ts';
import { prepareGrammar } from '../src/structured-output/first-walks.ts';
import { prepareVocabulary } from '../src/structured-output/prepare-vocabulary.ts';
import { packShared } from '../src/util/shared-value.ts';
import { newRequest } from '../test/helpers/new-request.ts';
import { startCore } from './engine.ts';
import { LARGE_VOCABULARY, readLargeVocabulary } from './large-vocabulary.ts';
import { writeRandomModel } from './random-model.ts';
import { type Figure, median, type Section } from './report.ts';

const SHAPE = 'qwen2.5-0.5b';
const NUM_SEQUENCES = 16;
const COUNTS = [1, NUM_SEQUENCES / 2] as const;
const PROMPT_TOKENS = 32;
const STEPS = 16;
const ROUNDS = 5;
const GOAL = '< 3';

/** A list of records that does not end while it is measured. */
const SCHEMA = {
  type: 'array',
  minItems: 1000,
  items: {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: 100 },
      age: { type: 'integer', minimum: 0, maximum: 150 },
      created: { type: 'string', format: 'date-time' },
      tags: { type: 'array', items: { enum: ['red', 'green', 'blue'] }, maxItems: 8 },
      note: { type: 'string' },
    },
    required: ['name', 'age', 'created', 'tags', 'note'],
    additionalProperties: false,
  },
};

export async function constrainedSection(): Promise<Section> {
  const title = `Constrained requests beside others, int8, ${SHAPE}, random weights`;
  const texts = readLargeVocabulary();
  if (texts === null) return { title, figures: [], notes: ['Needs ../shared/fixtures.'] };
  const prepared = prepareVocabulary(texts);
  const grammar = packShared(prepareGrammar(compile({ kind: 'jsonSchema', schema: SCHEMA }), prepared));
  const vocabulary = packShared(prepared);
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  try {
    writeRandomModel(folder, SHAPE);
    const core = await startCore({ modelPath: folder, quantization: 'int8' });
    try {
      return {
        title,
        figures: measure(core, { grammar, vocabulary }),
        notes: [
          `Time of ${STEPS} steps of ${NUM_SEQUENCES} sequences, of which some are constrained, against as many steps without: ` +
            `median of ${ROUNDS} rounds, each of which runs all. A constraint that is new is one that the engine has not had ` +
            `before. ${LARGE_VOCABULARY}.`,
        ],
      };
    } finally {
      core.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function measure(core: EngineCore, compiled: Omit<CompiledConstraint, 'id'>): Figure[] {
  const cases = COUNTS.flatMap((count) => [
    { count, isNew: true, slower: [] as number[] },
    { count, isNew: false, slower: [] as number[] },
  ]);
  const time = (count: number, id: string): number => timeSteps(core, count, { ...compiled, id });
  time(1, 'known');
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = time(0, '');
    const seconds = cases.map(({ count, isNew }) => time(count, isNew ? `${round} of ${count}` : 'known'));
    const without = (before + time(0, '')) / 2;
    for (const [index, { slower }] of cases.entries()) slower.push(100 * (seconds[index]! / without - 1));
  }
  return cases.map(({ count, isNew, slower }) => ({
    name: `${count} constrained of ${NUM_SEQUENCES}, ${isNew ? 'new' : 'known'}: the others are slower by`,
    value: median(slower),
    unit: '%',
    limit: null,
    goal: GOAL,
  }));
}

let numRequests = 0;

/** Seconds of the steps in which each sequence gets its next tokens. */
function timeSteps(core: EngineCore, numConstrained: number, constraint: CompiledConstraint): number {
  const { vocabSize } = core.executor.info;
  const ids = Array.from({ length: NUM_SEQUENCES }, () => numRequests++);
  for (const [index, id] of ids.entries()) {
    core.scheduler.add(
      newRequest({
        id,
        promptTokenIds: Array.from({ length: PROMPT_TOKENS }, (_, at) => (id * 31 + at * 7919) % vocabSize),
        sampling: { temperature: 1, seed: index },
        stop: { maxTokens: 1500 },
        rules: index < numConstrained ? {} : null,
        constraint: index < numConstrained ? constraint : null,
      }),
    );
  }
  core.step();
  const startedAt = performance.now();
  for (let step = 0; step < STEPS; step += 1) core.step();
  const seconds = (performance.now() - startedAt) / 1000;
  for (const id of ids) core.scheduler.abort(id);
  while (core.hasUnfinished) core.step();
  return seconds;
}
