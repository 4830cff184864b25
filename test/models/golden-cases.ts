// The golden models of this repository and, where they are, the shared ones, in one form.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { sharedFixture } from '../helpers/fixtures.ts';
import { readGolden } from '../helpers/read-tensors.ts';

export interface GoldenCase {
  readonly name: string;
  readonly ids: readonly number[];
  /** Logits of the last rows of `ids`, [rows, vocab]. */
  readonly rows: number;
  readonly logits: Float32Array;
  /** Empty where the golden has none. */
  readonly greedyIds: readonly number[];
}

export interface GoldenModel {
  readonly name: string;
  readonly folder: string;
  /** Length that the golden was served at, where it matters. */
  readonly maxModelLen: number | null;
  readonly cases: readonly GoldenCase[];
}

const ids = z.array(z.number());
const OWN = fileURLToPath(new URL('../fixtures/goldens', import.meta.url));
const ownManifest = z.object({
  cases: z.record(
    z.string(),
    z.object({ input_ids: ids, max_model_len: z.number().nullable(), greedy_ids: ids.optional() }),
  ),
});
/** golden.json of a folder that has one. */
const folderManifest = z.object({
  cases: z.array(
    z.object({ id: z.string(), input_ids: ids.optional(), prompt_ids: ids.optional(), greedy_ids: ids }),
  ),
});

export const SHARED_MODELS = [
  'random-gpt2',
  'random-llama3-rope',
  'random-mistral-sliding',
  'random-mixtral',
  'random-qwen2',
  'stories260K',
  'stories260K-bf16-sharded',
] as const;

export function ownGoldens(): GoldenModel[] {
  const { cases } = ownManifest.parse(readJson(join(OWN, 'manifest.json')));
  return Object.entries(cases).map(([name, golden]) => {
    const folder = join(OWN, name);
    const { shape, values } = readGolden(join(folder, 'golden.safetensors'), 'logits');
    const one = {
      name,
      ids: golden.input_ids,
      rows: shape[0]!,
      logits: values,
      greedyIds: golden.greedy_ids ?? [],
    };
    return { name, folder, maxModelLen: golden.max_model_len, cases: [one] };
  });
}

/** The model of an architecture, as a folder. */
export function goldenFolder(name: string): string {
  return join(OWN, name);
}

/** Models with codes for numbers: they are not computed in float32. */
const IN_CODES = { mxfp4: 'gpt-oss-mxfp4', ternary: 'bitnet-ternary' } as const;

/** One tiny model of each architecture and its variants, of tools/goldens/, in floats. */
export function architectureGoldens(): GoldenModel[] {
  const names = readdirSync(OWN).filter((name) => existsSync(join(OWN, name, 'golden.json')));
  const inCodes: readonly string[] = Object.values(IN_CODES);
  return names.filter((name) => !inCodes.includes(name)).map((name) => readFolder(name, join(OWN, name)));
}

export function goldenInCodes(codes: keyof typeof IN_CODES): GoldenModel {
  return readFolder(IN_CODES[codes], join(OWN, IN_CODES[codes]));
}

/** Null where this machine has no shared fixtures. */
export function sharedGolden(name: string): GoldenModel | null {
  const folder = sharedFixture(`models/${name}`);
  return folder === null ? null : readFolder(name, folder);
}

function readFolder(name: string, folder: string): GoldenModel {
  const { cases } = folderManifest.parse(readJson(join(folder, 'golden.json')));
  return {
    name,
    folder,
    maxModelLen: null,
    cases: cases.map((golden) => {
      const { shape, values } = readGolden(join(folder, 'golden.safetensors'), `${golden.id}.logits`);
      return {
        name: golden.id,
        ids: golden.input_ids ?? golden.prompt_ids ?? [],
        rows: shape[0]!,
        logits: values,
        greedyIds: golden.greedy_ids,
      };
    }),
  };
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}
