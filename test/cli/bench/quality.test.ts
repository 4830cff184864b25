import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { writeGgufModel } from '../../fixtures/gguf-model.ts';
import { writeTinyModel } from '../../fixtures/tiny-model.ts';
import { runCli } from '../../helpers/cli-process.ts';
import { temporaryFolders } from '../../helpers/temporary-folder.ts';

const comparison = z.object({
  quantization: z.enum(['int8', 'int4']).nullable(),
  kvCacheDtype: z.enum(['auto', 'fp8', 'int8']),
  dtype: z.literal('bf16'),
  numTokens: z.number(),
  weightBytes: z.object({ expected: z.number(), actual: z.number() }),
  perplexity: z.object({ expected: z.number(), actual: z.number() }),
  meanKl: z.number(),
  agreement: z.number(),
});

/** Of the kind that the bundled model writes. */
const STORY =
  'Once upon a time, a little dog named Max lived in a small house. One day he found a red ball in the garden. ' +
  '"I want to play," said Max. His friend, a cat named Lily, came out to see. They played all day and were very happy. ';

const newPath = temporaryFolders();

function textFile(text: string): string {
  const path = newPath();
  writeFileSync(path, text);
  return path;
}

describe('svc bench quality', () => {
  it('finds int8 close to the published weights of the bundled model, in half of the memory', async () => {
    const args = ['bench', 'quality', '--text-file', textFile(STORY.repeat(4)), '--output-json', '-'];
    const { code, stdout, stderr } = await runCli(args);
    expect({ code, errors: /error/.exec(stderr) }).toEqual({ code: 0, errors: null });
    const { numTokens, weightBytes, perplexity, meanKl, agreement } = comparison.parse(JSON.parse(stdout));
    expect(numTokens).toBeGreaterThan(200);
    expect(weightBytes.actual / weightBytes.expected).toBeCloseTo(0.5, 1);
    expect(meanKl).toBeGreaterThan(0);
    expect(meanKl).toBeLessThan(0.01);
    expect(agreement).toBeGreaterThan(0.95);
    expect(perplexity.actual / perplexity.expected).toBeCloseTo(1, 1);
  });

  it('finds int4 further from them, in less memory', async () => {
    const args = ['--text-file', textFile(STORY), '--quantization', 'int4', '--output-json', '-'];
    const { code, stdout } = await runCli(['bench', 'quality', ...args]);
    expect(code).toBe(0);
    const { quantization, weightBytes, meanKl, agreement } = comparison.parse(JSON.parse(stdout));
    expect(quantization).toBe('int4');
    expect(weightBytes.actual / weightBytes.expected).toBeLessThan(0.4);
    expect(meanKl).toBeLessThan(0.1);
    expect(agreement).toBeGreaterThan(0.8);
  });

  it('judges keys and values in 8 bits with the weights as they are published', async () => {
    const judge = async (...flags: string[]) => {
      const args = ['--text-file', textFile(STORY), '--kv-cache-dtype', ...flags, '--output-json', '-'];
      const { code, stdout } = await runCli(['bench', 'quality', ...args]);
      expect(code).toBe(0);
      return comparison.parse(JSON.parse(stdout));
    };
    const [fp8, int8, both] = [
      await judge('fp8'),
      await judge('int8'),
      await judge('int8', '--quantization', 'int8'),
    ];
    expect(fp8).toMatchObject({ quantization: null, kvCacheDtype: 'fp8' });
    expect(fp8.weightBytes.actual).toBe(fp8.weightBytes.expected);
    expect(int8.meanKl).toBeGreaterThan(0);
    expect(int8.meanKl).toBeLessThan(fp8.meanKl);
    expect(fp8.meanKl).toBeLessThan(0.05);
    expect(both).toMatchObject({ quantization: 'int8', kvCacheDtype: 'int8' });
    expect(both.weightBytes.actual / both.weightBytes.expected).toBeCloseTo(0.5, 1);
  });

  it('judges a GGUF file in float32, its keys and values once it is computed in bfloat16', async () => {
    const folder = newPath();
    writeTinyModel(folder, { dtype: 'f32' });
    const model = join(folder, 'model.gguf');
    writeGgufModel(folder, model);
    const args = [
      'bench',
      'quality',
      model,
      '--text-file',
      textFile(STORY),
      '--kv-cache-dtype',
      'int8',
      '--output-json',
      '-',
    ];
    const refused = await runCli(args);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(/or give --dtype bfloat16\n$/) });
    const { code, stdout } = await runCli([...args, '--dtype', 'bfloat16']);
    expect(code).toBe(0);
    expect(comparison.parse(JSON.parse(stdout))).toMatchObject({ quantization: null, dtype: 'bf16' });
  });

  it('predicts a text that is longer than the context of the model piece by piece', async () => {
    const folder = newPath();
    writeTinyModel(folder, { dtype: 'bf16', config: { max_position_embeddings: 32 } });
    const { code, stdout } = await runCli([
      'bench',
      'quality',
      folder,
      '--text-file',
      textFile(STORY),
      '--num-tokens',
      '70',
      '--output-json',
      '-',
    ]);
    expect(code).toBe(0);
    const { numTokens, meanKl } = comparison.parse(JSON.parse(stdout));
    // 32, 32 and 6 tokens, of which the first of each is not predicted.
    expect(numTokens).toBe(67);
    expect(meanKl).toBeGreaterThan(0);
  });

  it('prints a table for people', async () => {
    const { code, stdout } = await runCli([
      'bench',
      'quality',
      '--text-file',
      textFile(STORY),
      '--num-tokens',
      '40',
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^39 tokens +bf16 +int8\nweights read a token +[\d.]+ MB +[\d.]+ MB\nperplexity /);
    expect(stdout).toMatch(/mean KL divergence +[\d.]+\nsame most probable token +[\d.]+ %\n$/);
  });

  it.each([
    [['--text-file', 'missing.txt'], /^error: --text-file missing\.txt cannot be read: .*\n$/],
    [[], /^error: required option '--text-file <path>' not specified\n$/],
    [['--text-file', 'a', '--quantization', 'int3'], /'int3' is invalid.*int8, int4, fp8/],
    [['--text-file', 'a', '--kv-cache-dtype', 'int4'], /'int4' is invalid.*fp8, int8/],
    [['--text-file', 'a', '--num-tokens', '1'], /expected a whole number of at least 2/],
  ])('refuses %j in one line', async (args, message) => {
    const { code, stderr } = await runCli(['bench', 'quality', ...args]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) });
  });
});
