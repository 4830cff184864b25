// The prompts of a measurement: random token ids, or those of a file.

import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import type { Prompt } from '../../engine/inference-engine.ts';
import { ConfigError } from '../../errors.ts';
import { uniform } from '../../sampling/random-stream.ts';

/** The `index`-th prompt of `length` tokens: the same seed gives the same ids, and no two prompts begin alike. */
export function randomPrompt(
  { seed, vocabSize }: { readonly seed: number; readonly vocabSize: number },
  index: number,
  length: number,
): Prompt {
  const id = (position: number): number => Math.floor(uniform(seed, index, position) * vocabSize);
  return { tokenIds: Array.from({ length }, (_, position) => id(position)) };
}

const jsonLine = z.object({ prompt: z.string().min(1) });

/**
 * The texts of a file: one a line, or, in a file named *.jsonl, one in the field `prompt` of each line.
 * @throws ConfigError where it cannot be read, has no prompt, or a line is no such object.
 */
export async function readDataset(path: string): Promise<string[]> {
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw new ConfigError(`--dataset ${path} cannot be read: ${error.message}`, { param: 'dataset' });
  });
  const lines = text.split('\n').map((line, i) => ({ line: line.trim(), number: i + 1 }));
  const given = lines.filter(({ line }) => line !== '');
  if (given.length === 0) throw new ConfigError(`--dataset ${path} has no prompts`, { param: 'dataset' });
  if (!path.endsWith('.jsonl')) return given.map(({ line }) => line);
  return given.map(({ line, number }) => promptOf(line, `${path}:${number}`));
}

function promptOf(line: string, place: string): string {
  const parsed = jsonLine.safeParse(parseJson(line));
  if (parsed.success) return parsed.data.prompt;
  throw new ConfigError(`--dataset ${place}: expected an object such as {"prompt": "Once upon a time"}`, {
    param: 'dataset',
  });
}

/** Undefined where it is none. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
