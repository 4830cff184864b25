// Speed of sampling by itself: what the settings of a request take beside a greedy one, of a row whose probability a few tokens share, as
// mostly, and of one that leaves nearly everything open.

import type { Ops, SamplingRows } from '../../src/ops/ops.ts';
import { Random } from '../../test/helpers/random.ts';
import { openOps } from '../machine.ts';
import { type Figure, figureOf, median, type Section } from '../report.ts';
import { timeOps } from './time-ops.ts';

const ROWS = 16;
const VOCAB = 151_936;
const RUNS = 20;

interface Settings {
  readonly temperature: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
}

const CASES: readonly (readonly [name: string, Settings])[] = [
  ['greedy', { temperature: 0 }],
  ['temperature', { temperature: 1 }],
  ['min_p 0.05', { temperature: 1, minP: 0.05 }],
  ['top_p 0.9', { temperature: 1, topP: 0.9 }],
  ['top_k 20, top_p 0.8', { temperature: 1, topK: 20, topP: 0.8 }],
  ['top_k 1000', { temperature: 1, topK: 1000 }],
];

export function samplingSection(): Section {
  const ops = openOps();
  try {
    return {
      title: 'Sampling',
      figures: [
        ...measureAll(ops, 'a few likely tokens', (random) => -1.7 * Math.log(1 - random.next())),
        ...measureAll(ops, 'flat', (random) => 8 * random.next()),
      ],
      notes: [`Medians of ${RUNS} times ${ROWS} rows of ${VOCAB} logits.`],
    };
  } finally {
    ops.close();
  }
}

function measureAll(ops: Ops, shape: string, logit: (random: Random) => number): Figure[] {
  const random = new Random(1);
  return ops.scope(() => {
    const logits = Float32Array.from({ length: ROWS * VOCAB }, () => logit(random));
    const tensor = ops.tensor(logits, ROWS, VOCAB, 'f32');
    return CASES.map(([name, settings]) => {
      const seconds = Array.from({ length: RUNS }, () =>
        timeOps(ops, () => ops.sample(tensor, rowsOf(settings, random))),
      );
      return figureOf(`${shape}: ${name}`, median(seconds) * 1e3, 'ms');
    });
  });
}

function rowsOf({ temperature, topK = 0, topP = 1, minP = 0 }: Settings, random: Random): SamplingRows {
  return {
    temperature: new Float32Array(ROWS).fill(temperature),
    topK: new Int32Array(ROWS).fill(topK),
    topP: new Float32Array(ROWS).fill(topP),
    minP: new Float32Array(ROWS).fill(minP),
    uniform: Float64Array.from({ length: ROWS }, () => random.next()),
  };
}
