import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readWorkload, type WorkloadOptions } from '../../../src/cli/bench/serve/workload.ts';
import { ConfigError } from '../../../src/errors.ts';
import { temporaryFolders } from '../../helpers/temporary-folder.ts';

const folder = temporaryFolders()();
mkdirSync(folder);

const RANDOM: WorkloadOptions = {
  dataset: 'random',
  datasetPath: null,
  numPrompts: null,
  inputLen: 8,
  prefixLen: 0,
  rangeRatio: 0,
  outputLen: 128,
  seed: 1,
};

function file(text: string): string {
  const path = join(folder, 'data');
  writeFileSync(path, text);
  return path;
}

describe('a workload', () => {
  it('of random prompts is the same for the same seed, and no two prompts are alike', async () => {
    const [one, again] = [await readWorkload(RANDOM), await readWorkload(RANDOM)];
    expect(again).toEqual(one);
    expect(one).toHaveLength(100);
    expect(new Set(one.map(({ prompt }) => String(prompt))).size).toBe(100);
    expect(one[0]).toMatchObject({ outputLen: 128, at: null });
    expect(await readWorkload({ ...RANDOM, seed: 2 })).not.toEqual(one);
  });

  it('of random prompts may share a beginning, and differ in length', async () => {
    const requests = await readWorkload({
      ...RANDOM,
      prefixLen: 4,
      inputLen: 20,
      outputLen: 10,
      rangeRatio: 0.5,
    });
    expect(new Set(requests.map(({ prompt }) => String(prompt.slice(0, 4)))).size).toBe(1);
    const lengths = requests.map(({ prompt }) => prompt.length - 4);
    expect([Math.min(...lengths), Math.max(...lengths)]).toEqual([10, 30]);
    const answers = requests.map(({ outputLen }) => outputLen);
    expect([...new Set(answers)].sort((a, b) => a! - b!)).toEqual([5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
  });

  it('of conversations has the first message of each', async () => {
    const datasetPath = file(
      JSON.stringify([
        {
          conversations: [
            { from: 'human', value: 'Hi' },
            { from: 'gpt', value: 'Hello' },
          ],
        },
        { conversations: [] },
      ]),
    );
    const requests = await readWorkload({ ...RANDOM, dataset: 'sharegpt', datasetPath });
    expect(requests).toEqual([{ prompt: 'Hi', outputLen: 128, at: null }]);
  });

  it('of a trace keeps its times, its lengths and its shared beginnings', async () => {
    const lines = [
      { timestamp: 500, input_length: 600, output_length: 3, hash_ids: [0, 1] },
      { timestamp: 1500, input_length: 700, output_length: 4, hash_ids: [0, 2] },
      { timestamp: 1600, input_length: 5, output_length: 4 },
    ];
    const datasetPath = file(lines.map((line) => JSON.stringify(line)).join('\n'));
    const requests = await readWorkload({ ...RANDOM, outputLen: null, dataset: 'trace', datasetPath });
    expect(requests.map(({ prompt, outputLen, at }) => [prompt.length, outputLen, at])).toEqual([
      [600, 3, 0],
      [700, 4, 1],
      [5, 4, 1.1],
    ]);
    const [one, other] = requests.map(({ prompt }) => prompt);
    expect(one?.slice(0, 512)).toEqual(other?.slice(0, 512));
    expect(one?.slice(512, 600)).not.toEqual(other?.slice(512, 600));
  });

  it.each([
    ['no file', { dataset: 'trace' }, '--dataset-name trace needs --dataset-path'],
    ['a missing file', { dataset: 'trace', datasetPath: '/nowhere' }, '/nowhere cannot be read: ENOENT'],
    ['an empty file', { dataset: 'trace', datasetPath: '/dev/null' }, 'has no prompts'],
  ] as const)('of %s is refused where it must be', async (_, given, message) => {
    const read = readWorkload({ ...RANDOM, ...given });
    await expect(read).rejects.toThrow(ConfigError);
    await expect(read).rejects.toThrow(message);
  });

  it('names the line that is none of a trace', async () => {
    const datasetPath = file('{"timestamp":0,"input_length":1,"output_length":1}\n{"timestamp":0}\n');
    await expect(readWorkload({ ...RANDOM, dataset: 'trace', datasetPath })).rejects.toThrow(
      `${datasetPath}:2: expected {"timestamp": 0`,
    );
  });
});
