// The requests of a measurement: random ones, conversations of a ShareGPT file, or a trace of a service with its times.

import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { ConfigError } from '../../../errors.ts';
import { uniform } from '../../../sampling/random-stream.ts';
import { parseJson } from '../../../util/parse-json.ts';

export interface WorkloadRequest {
  readonly prompt: string | readonly number[];
  /** Tokens of the answer; null leaves its end to the model. */
  readonly outputLen: number | null;
  /** Seconds since the beginning at which it is sent; null where the rate decides. */
  readonly at: number | null;
}

export const DATASETS = ['random', 'sharegpt', 'trace'] as const;
export type DatasetName = (typeof DATASETS)[number];

export interface WorkloadOptions {
  readonly dataset: DatasetName;
  readonly datasetPath: string | null;
  readonly numPrompts: number | null;
  readonly inputLen: number;
  /** Tokens before those of `inputLen` that all random prompts share. */
  readonly prefixLen: number;
  /** Random lengths are within this part of what they should be: 0.1 is 10 % less to 10 % more. */
  readonly rangeRatio: number;
  /** Null: as a trace says, or else left to the model. */
  readonly outputLen: number | null;
  readonly seed: number;
}

const DEFAULT_NUM_PROMPTS = 100;
/** Apart from the streams of prompts. */
const LENGTHS = 1 << 21;
const PREFIX = -1;
/** Ids that every vocabulary has, above the special tokens that stand first in most. */
const FIRST_ID = 300;
const NUM_IDS = 700;

const turns = z.array(z.object({ from: z.string(), value: z.string() }));
const shareGpt = z.array(z.object({ conversations: turns }));
/** Milliseconds; ids of equal blocks of prompts, so that prefixes are shared as they were. */
const traceLine = z.object({
  timestamp: z.number(),
  input_length: z.int().min(1),
  output_length: z.int().min(1),
  hash_ids: z.array(z.int()).optional(),
});
const TRACE_BLOCK = 512;

/** @throws ConfigError where there is no such file, or it is none of its kind. */
export async function readWorkload(options: WorkloadOptions): Promise<WorkloadRequest[]> {
  const { dataset, numPrompts } = options;
  const all = dataset === 'random' ? randomRequests(options) : await fileRequests(options, pathOf(options));
  if (numPrompts !== null && numPrompts > all.length) {
    throw new ConfigError(`--num-prompts ${numPrompts}: the dataset has ${all.length}`, {
      param: 'num-prompts',
    });
  }
  return all.slice(0, numPrompts ?? all.length);
}

function randomRequests(options: WorkloadOptions): WorkloadRequest[] {
  const { numPrompts, inputLen, outputLen, prefixLen, rangeRatio, seed } = options;
  const prefix = randomIds(seed, PREFIX, prefixLen);
  return Array.from({ length: numPrompts ?? DEFAULT_NUM_PROMPTS }, (_, i) => {
    const length = (mean: number, index: number): number =>
      Math.max(1, Math.round(mean * (1 + rangeRatio * (2 * uniform(seed, LENGTHS + i, index) - 1))));
    return {
      prompt: [...prefix, ...randomIds(seed, i, length(inputLen, 0))],
      outputLen: outputLen === null ? null : length(outputLen, 1),
      at: null,
    };
  });
}

function pathOf({ dataset, datasetPath }: WorkloadOptions): string {
  if (datasetPath !== null) return datasetPath;
  throw new ConfigError(`--dataset-name ${dataset} needs --dataset-path <file>`, { param: 'dataset-path' });
}

async function fileRequests(options: WorkloadOptions, path: string): Promise<WorkloadRequest[]> {
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw new ConfigError(`--dataset-path ${path} cannot be read: ${error.message}`, {
      param: 'dataset-path',
    });
  });
  const requests =
    options.dataset === 'sharegpt' ? conversations(text, path, options) : trace(text, path, options);
  if (requests.length > 0) return requests;
  throw new ConfigError(`--dataset-path ${path} has no prompts`, { param: 'dataset-path' });
}

/** The first message of each conversation. */
function conversations(text: string, path: string, { outputLen }: WorkloadOptions): WorkloadRequest[] {
  const parsed = shareGpt.safeParse(parseJson(text));
  if (!parsed.success)
    throw wrongKind(path, 'a list of {"conversations": [{"from": "human", "value": "..."}]}');
  return parsed.data.flatMap(({ conversations: [first] }) =>
    first === undefined || first.value === '' ? [] : [{ prompt: first.value, outputLen, at: null }],
  );
}

function trace(
  text: string,
  path: string,
  { outputLen, seed, numPrompts }: WorkloadOptions,
): WorkloadRequest[] {
  const given = text.split('\n').filter((line) => line.trim() !== '');
  const lines = given.slice(0, numPrompts ?? given.length);
  const rows = lines.map((line, i) => {
    const row = traceLine.safeParse(parseJson(line));
    if (row.success) return row.data;
    throw wrongKind(`${path}:${i + 1}`, '{"timestamp": 0, "input_length": 100, "output_length": 10}');
  });
  const start = rows[0]?.timestamp ?? 0;
  return rows.map(({ timestamp, input_length, output_length, hash_ids = [] }, i) => {
    const shared = hash_ids.flatMap((hash) => randomIds(seed, -1 - hash, TRACE_BLOCK));
    const own = randomIds(seed, i, Math.max(0, input_length - shared.length));
    return {
      prompt: [...shared, ...own].slice(0, input_length),
      outputLen: outputLen ?? output_length,
      at: (timestamp - start) / 1000,
    };
  });
}

function wrongKind(place: string, expected: string): ConfigError {
  return new ConfigError(`--dataset-path ${place}: expected ${expected}`, { param: 'dataset-path' });
}

function randomIds(seed: number, stream: number, length: number): number[] {
  return Array.from({ length }, (_, i) => FIRST_ID + Math.floor(uniform(seed, stream, i) * NUM_IDS));
}
