// What both servers are asked to do, and how often.

import { median } from '../report.ts';
import { complete, randomPrompt } from './client.ts';
import { SCHEMES } from './schemes.ts';
import type { Seats } from './servers.ts';

export interface Metric {
  readonly name: string;
  readonly unit: string;
  readonly isMoreBetter: boolean;
  /** How many times as good svc is to be, by scheme; watched only where there is none. */
  readonly goals?: Readonly<Record<string, string>>;
}

export interface Scenario {
  /** For --only. */
  readonly name: string;
  readonly seats: Seats;
  readonly rounds: number;
  /** Left out: all of them. */
  readonly schemes?: readonly string[];
  readonly metrics: readonly Metric[];
  /** One value for each metric. `seed` gives each run prompts of its own. */
  run(url: string, vocabSize: number, seed: number): Promise<number[]>;
}

export const ONE: Seats = { numSeqs: 1, contextSize: 2304 };
export const MANY: Seats = { numSeqs: 32, contextSize: 768 };

const BURST = { prompts: 32, promptTokens: 512, outputTokens: 64 };

/** Fewer rounds of what takes longer: one of each takes the peer about two minutes, the burst three more. */
export const SCENARIOS: readonly Scenario[] = [
  prefill(512, 3, { int8: '>= 3 (2 on AMD)' }),
  prefill(2048, 2),
  decodeOne(128, 3),
  decodeOne(1024, 2),
  decodeMany(4, 2),
  decodeMany(16, 2, { int8: '>= 4' }),
  decodeMany(32, 2, { int8: '>= 4' }),
  {
    name: 'burst',
    seats: MANY,
    rounds: 1,
    schemes: ['int8'],
    metrics: [
      {
        name: `${BURST.prompts} prompts of ${BURST.promptTokens} at once, ${BURST.outputTokens} tokens each: until all are done`,
        unit: 's',
        isMoreBetter: false,
        goals: { int8: '>= 3' },
      },
      {
        name: `${BURST.prompts} prompts of ${BURST.promptTokens} at once: first token, p50`,
        unit: 's',
        isMoreBetter: false,
        goals: { int8: '>= 4' },
      },
    ],
    run: burst,
  },
];

function prefill(length: number, rounds: number, goals: Metric['goals'] = {}): Scenario {
  return {
    name: `prefill-${length}`,
    seats: ONE,
    rounds,
    metrics: [{ name: `prefill of ${length}`, unit: 'tokens/s', isMoreBetter: true, goals }],
    run: async (url, vocabSize, seed) => {
      const { startedAt, arrivals } = await complete(url, randomPrompt(length, seed, vocabSize), 1);
      return [(1000 * length) / (arrivals[0]! - startedAt)];
    },
  };
}

function decodeOne(context: number, rounds: number): Scenario {
  const numTokens = 32;
  return {
    name: `decode-1-at-${context}`,
    seats: ONE,
    rounds,
    metrics: [
      {
        name: `decode of 1 at context ${context}`,
        unit: 'tokens/s',
        isMoreBetter: true,
        goals: Object.fromEntries(SCHEMES.map(({ name }) => [name, '>= 1.5'])),
      },
    ],
    run: async (url, vocabSize, seed) => [await decodeRate(url, vocabSize, seed, 1, context, numTokens)],
  };
}

function decodeMany(count: number, rounds: number, goals: Metric['goals'] = {}): Scenario {
  const [promptTokens, numTokens] = [16, 12];
  return {
    name: `decode-${count}`,
    seats: MANY,
    rounds,
    metrics: [{ name: `decode of ${count}`, unit: 'tokens/s', isMoreBetter: true, goals }],
    run: async (url, vocabSize, seed) => [
      await decodeRate(url, vocabSize, seed, count, promptTokens, numTokens),
    ],
  };
}

/** Tokens a second of `count` sequences together, from when each of them has its first token. */
async function decodeRate(
  url: string,
  vocabSize: number,
  seed: number,
  count: number,
  promptTokens: number,
  numTokens: number,
): Promise<number> {
  const answers = await Promise.all(
    Array.from({ length: count }, (_, i) =>
      complete(url, randomPrompt(promptTokens, seed * count + i, vocabSize), numTokens),
    ),
  );
  const begin = Math.max(...answers.map(({ arrivals }) => arrivals[0]!));
  const end = Math.max(...answers.map(({ arrivals }) => arrivals.at(-1)!));
  const decoded = answers.flatMap(({ arrivals }) => arrivals).filter((at) => at > begin);
  return (1000 * decoded.length) / (end - begin);
}

async function burst(url: string, vocabSize: number, seed: number): Promise<number[]> {
  const { prompts, promptTokens, outputTokens } = BURST;
  const answers = await Promise.all(
    Array.from({ length: prompts }, (_, i) =>
      complete(url, randomPrompt(promptTokens, seed * prompts + i, vocabSize), outputTokens),
    ),
  );
  const begin = Math.min(...answers.map(({ startedAt }) => startedAt));
  const end = Math.max(...answers.map(({ arrivals }) => arrivals.at(-1)!));
  const firstTokens = answers.map(({ startedAt, arrivals }) => arrivals[0]! - startedAt);
  return [(end - begin) / 1000, median(firstTokens) / 1000];
}
