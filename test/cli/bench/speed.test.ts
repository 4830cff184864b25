import { readFileSync, writeFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { benchLatency } from '../../../src/cli/bench/latency.ts';
import { readDataset } from '../../../src/cli/bench/prompts.ts';
import { benchThroughput } from '../../../src/cli/bench/throughput.ts';
import type { GivenOption, OptionSource } from '../../../src/config/merge.ts';
import { type OptionKey, SERVE_OPTIONS } from '../../../src/config/options.ts';
import { writeTinyModel } from '../../fixtures/tiny-model.ts';
import { runCli } from '../../helpers/cli-process.ts';
import { SVC_COMMAND } from '../../helpers/svc-command.ts';
import { temporaryFolders } from '../../helpers/temporary-folder.ts';
import { noTerminal, TerminalProcess } from '../../helpers/terminal-process.ts';

const about = {
  model: z.string(),
  dtype: z.literal('bf16'),
  weight_format: z.string(),
  processor: z.string().min(1),
  isa: z.string().min(1),
  compute: z.string().min(1),
  weight_bytes: z.number().positive(),
  peak_memory_bytes: z.number().positive(),
};
const percentiles = z.strictObject({
  10: z.number().positive(),
  25: z.number().positive(),
  50: z.number().positive(),
  75: z.number().positive(),
  90: z.number().positive(),
  99: z.number().positive(),
});
const summary = z.strictObject({ mean: z.number().positive(), percentiles });
const latencyJson = z.strictObject({
  ...about,
  input_len: z.number(),
  output_len: z.number(),
  batch_size: z.number(),
  num_iters: z.number(),
  avg_latency: z.number().positive(),
  latencies: z.array(z.number().positive()),
  percentiles,
  output_tokens_per_second: z.number().positive(),
  ttft: summary,
  tpot: summary.nullable(),
});
const throughputJson = z.strictObject({
  ...about,
  elapsed_time: z.number().positive(),
  num_requests: z.number(),
  total_input_tokens: z.number(),
  total_output_tokens: z.number(),
  requests_per_second: z.number().positive(),
  tokens_per_second: z.number().positive(),
  output_tokens_per_second: z.number().positive(),
});

const newPath = temporaryFolders();
let model: string;
beforeAll(() => {
  model = newPath();
  writeTinyModel(model, { dtype: 'bf16' });
});

function latency(...args: readonly string[]) {
  return runCli(['bench', 'latency', model, ...args]);
}

function throughput(...args: readonly string[]) {
  return runCli(['bench', 'throughput', model, ...args]);
}

function engineFlags(options: Readonly<Partial<Record<OptionKey, string>>>): OptionSource {
  const flags = new Map<OptionKey, GivenOption>([['model', { value: model, origin: 'model' }]]);
  for (const key of SERVE_OPTIONS.keys) {
    if (options[key] !== undefined) flags.set(key, { value: options[key], origin: `--${key}` });
  }
  return flags;
}

function file(name: string, content: string): string {
  const path = `${newPath()}${name}`;
  writeFileSync(path, content);
  return path;
}

describe('svc bench latency', () => {
  it('writes the times of each iteration, of first tokens and of those after as JSON, with the machine', async () => {
    const lengths = ['--input-len', '9', '--output-len', '5', '--batch-size', '3'];
    const args = ['--model', model, ...lengths, '--num-iters', '4', '--output-json', '-'];
    const { code, stdout } = await runCli(['bench', 'latency', ...args]);
    expect(code).toBe(0);
    const result = latencyJson.parse(JSON.parse(stdout));
    expect(result).toMatchObject({ model, input_len: 9, output_len: 5, batch_size: 3, num_iters: 4 });
    expect(result.latencies).toHaveLength(4);
    const mean = result.latencies.reduce((sum, seconds) => sum + seconds, 0) / 4;
    expect(result.avg_latency).toBeCloseTo(mean, 9);
    expect(result.output_tokens_per_second).toBeCloseTo(15 / mean, 6);
    expect(result.ttft.mean).toBeLessThan(mean);
    expect(result.percentiles[10]).toBeLessThanOrEqual(result.percentiles[99]);
  });

  it('prints a table for people and the JSON into a file, with the options of the engine', async () => {
    const path = newPath();
    const run = ['--output-len', '1', '--batch-size', '2', '--num_iters', '2', '--num-iters-warmup', '0'];
    const { code, stdout, stderr } = await latency(...run, '-q', 'int8', '-tp', '1', '--output-json', path);
    expect({ code, bar: /Processed/.exec(stderr) }).toEqual({ code: 0, bar: null });
    expect(stdout).toMatch(
      /^model +.*\ndtype +bf16, weights in int8\nprocessor +.*\nmemory +\d+ MB at most, /,
    );
    expect(stdout).toMatch(/\n\nbatch +2 x 32 tokens in, 1 out, 2 times\noutput +[\d.]+ tokens\/s\n\n/);
    // Answers of one token have none after it.
    expect(stdout).toMatch(/\n {6}whole batch {2}first token\nmean +[\d.]+ ms +[\d.]+ ms\np10 /);
    const result = latencyJson.parse(JSON.parse(readFileSync(path, 'utf8')));
    expect(result).toMatchObject({ weight_format: 'int8', tpot: null });
  });

  it.each([
    [
      { inputLen: 500, outputLen: 13 },
      {},
      '--input-len 500 and --output-len 13 together are longer than the context of 512 tokens: lower one of them',
    ],
    [
      { inputLen: 60, outputLen: 5 },
      { maxModelLen: '64' },
      'longer than the context of 64 tokens: lower one of them, or raise --max-model-len',
    ],
    [
      { batchSize: 5 },
      { maxNumSeqs: '4' },
      '--batch-size 5 is more than --max-num-seqs 4: lower the first or raise the second',
    ],
    [
      { batchSize: 64, outputLen: 128 },
      { kvCacheMemoryBytes: '1M' },
      /^--batch-size 64 with 160 tokens each needs 640 blocks of the KV cache, which has \d+: lower it, or raise --kv-cache-memory-bytes$/,
    ],
  ])('refuses %j with the options %j, with the fix', async (options, engine, message) => {
    const small = { inputLen: 32, outputLen: 8, batchSize: 1, numIters: 1, numItersWarmup: 0 };
    await expect(benchLatency({ ...small, ...options }, engineFlags(engine))).rejects.toThrow(message);
  });

  it.each(['/nowhere/a.json', '/'])('refuses to write to %s before it loads a model', async (outputJson) => {
    const small = { inputLen: 32, outputLen: 8, batchSize: 1, numIters: 1, numItersWarmup: 0 };
    const run = benchLatency({ ...small, outputJson }, engineFlags({ model: '/no-model' }));
    await expect(run).rejects.toThrow(`--output-json ${outputJson} cannot be written: `);
  });

  it('refuses an option that only a server has, in one line', async () => {
    const { code, stderr } = await latency('--port', '1');
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/^error: unknown option '--port'\n/),
    });
  });

  it.skipIf(noTerminal)('shows a bar on a terminal', async () => {
    const args = ['bench', 'latency', model, '--batch-size', '2', '--num-iters', '2', '--output-len', '4'];
    const terminal = new TerminalProcess([...SVC_COMMAND, ...args]);
    await terminal.says(/Processed prompts 100%.*8\/8/);
    await terminal.says(/p99 .* ms\n/);
    expect(await terminal.exitCode).toBe(0);
  });
});

describe('svc bench throughput', () => {
  it('counts the tokens of random prompts and answers, which no end token shortens', async () => {
    const run = ['--num-prompts', '6', '--input-len', '7', '--output-len', '11'];
    const { code, stdout } = await throughput(...run, '--max-num-seqs', '2', '--output-json', '-');
    expect(code).toBe(0);
    const result = throughputJson.parse(JSON.parse(stdout));
    expect(result).toMatchObject({ num_requests: 6, total_input_tokens: 42, total_output_tokens: 66 });
    expect(result.tokens_per_second).toBeCloseTo(108 / result.elapsed_time, 6);
  });

  it('runs the first texts of a JSON-lines file and prints a table', async () => {
    const dataset = file(
      '.jsonl',
      '{"prompt": "Hello you", "id": 1}\n{"prompt": "Hello"}\n{"prompt": "a"}\n',
    );
    const { code, stdout } = await throughput(
      '--dataset',
      dataset,
      '--num-prompts',
      '2',
      '--output-len',
      '3',
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /\nrequests +2 in [\d.]+ s, [\d.]+ requests\/s\ntokens +\d+ in, 6 out\ntotal +[\d.]+ tokens\/s\noutput +[\d.]+ tokens\/s\n$/,
    );
  });

  it.each([
    [{ numPrompts: 2 }, /^--num-prompts 2: --dataset .* has 1; leave it out to take all of them$/],
    [{ inputLen: 2 }, /^--input-len and --dataset exclude each other: /],
  ])('refuses %j beside a dataset of one prompt', async (options, message) => {
    const dataset = file('.txt', 'a\n');
    const run = benchThroughput({ dataset, outputLen: 1, ...options }, engineFlags({}));
    await expect(run).rejects.toThrow(message);
  });
});

it('a measurement of prompts names the one that is too long before it begins', async () => {
  const dataset = file('.txt', `a\n${'a '.repeat(1000)}\n`);
  const run = benchThroughput({ dataset, outputLen: 1 }, engineFlags({}));
  await expect(run).rejects.toThrow(/^--dataset .*: prompt 2: the prompt has \d+ tokens/);
});

describe('a dataset', () => {
  it('has one prompt a line of a text, and of JSON lines what each says', async () => {
    expect(await readDataset(file('.txt', 'Hello you\n\n {"prompt": "a"}\n'))).toEqual([
      'Hello you',
      '{"prompt": "a"}',
    ]);
    expect(await readDataset(file('.jsonl', '{"prompt": "a\\nb"}\n'))).toEqual(['a\nb']);
  });

  it.each([
    [() => 'missing.txt', /^--dataset missing\.txt cannot be read: /],
    [() => file('.txt', '\n \n'), /^--dataset .* has no prompts$/],
    [
      () => file('.jsonl', '{"prompt": "a"}\n\n{"text": "b"}\n'),
      /^--dataset .*\.jsonl:3: expected an object such as \{"prompt": "Once upon a time"\}$/,
    ],
    [() => file('.jsonl', 'Hello\n'), /\.jsonl:1: expected an object/],
  ])('is refused where it cannot be read, is empty or has another form: %#', async (path, message) => {
    await expect(readDataset(path())).rejects.toThrow(message);
  });
});
