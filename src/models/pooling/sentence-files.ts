// The files in which a model says what is made of its hidden states: modules.json names the steps in their order, and some of
// them have a folder with a config.json.
// Source: the formats of the Sentence Transformers library, https://sbert.net.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { type ModelText, parseModelJson } from '../../util/model-file.ts';
import {
  DENSE_CONFIG,
  type DenseFolder,
  isDenseFolder,
  type ModelFiles,
  type SentenceFileName,
} from '../../util/model-files.ts';
import { preview } from '../../util/preview.ts';
import type { DenseLayer, HeadActivation, PooledRows, TextPrompts } from './pooling-config.ts';

export interface SentenceFiles {
  /** Null where there is no such step. */
  readonly rows: PooledRows | null;
  /** The products behind the pooling, in their order. */
  readonly dense: readonly DenseLayer[];
  readonly isNormalized: boolean;
  readonly prompts: TextPrompts;
  /** Ids of the tokens for "fits" and "does not fit" whose logits are the score; null where there is no such step. */
  readonly scoreTokens: { readonly yes: number; readonly no: number | null } | null;
}

/** More than any model has. */
const MAX_STEPS = 100;
const modules = z.array(z.looseObject({ type: z.string(), path: z.string().default('') })).max(MAX_STEPS);

const flag = z.boolean().nullish();
const pooling = z.looseObject({
  pooling_mode: z.union([z.string(), z.array(z.string())]).nullish(),
  pooling_mode_cls_token: flag,
  pooling_mode_mean_tokens: flag,
  pooling_mode_lasttoken: flag,
  pooling_mode_max_tokens: flag,
  pooling_mode_mean_sqrt_len_tokens: flag,
  pooling_mode_weightedmean_tokens: flag,
  include_prompt: flag,
});

const MAX_PROMPTS = 1000;
const prompts = z.looseObject({
  prompts: z
    .record(z.string(), z.string())
    .refine((texts) => Object.keys(texts).length <= MAX_PROMPTS, `must be at most ${MAX_PROMPTS} texts`)
    .nullish(),
  default_prompt_name: z.string().nullish(),
});

const tokenId = z.int().nonnegative();
const logitScore = z.looseObject({ true_token_id: tokenId, false_token_id: tokenId.nullish() });

const count = z.int().positive();
const dense = z.looseObject({
  in_features: count,
  out_features: count,
  bias: z.boolean().nullish(),
  activation_function: z.string().nullish(),
});

/** Steps that are known, in their order: where the config.json of each is; null where it needs none. */
const STEPS: Readonly<Record<string, string | null>> = {
  Transformer: null,
  Pooling: '1_Pooling',
  Dense: 'N_Dense',
  LogitScore: '1_LogitScore',
  Normalize: null,
};
const ORDER = Object.keys(STEPS);

/**
 * @returns null where the model has no such files.
 * @throws ModelLoadError naming the file and what was expected.
 */
export function readSentenceFiles(files: ModelFiles): SentenceFiles | null {
  const listed = files.read('modules.json');
  if (listed === null) return null;
  const steps = parseModelJson(listed, modules, 'a list of objects with "type" and "path"').map((step) => ({
    ...step,
    kind: step.type.split('.').at(-1)!,
  }));
  for (const step of steps) expectKnown(listed, step);
  expectOrder(listed, steps);
  const has = (kind: string): boolean => steps.some((step) => step.kind === kind);
  return {
    rows: has('Pooling') ? readRows(files) : null,
    dense: steps.flatMap(({ path }) => (isDenseFolder(path) ? [readDense(files, path)] : [])),
    isNormalized: has('Normalize'),
    prompts: readPrompts(files),
    scoreTokens: has('LogitScore') ? readScoreTokens(files) : null,
  };
}

/** An entry of modules.json: `kind` is the end of its type. */
interface SentenceStep {
  readonly kind: string;
  readonly path: string;
}

function expectKnown({ path: file }: ModelText, { kind, path }: SentenceStep): void {
  if (!Object.hasOwn(STEPS, kind)) {
    throw new ModelLoadError(
      `${file}: the step ${preview(kind)} is not supported; supported are ${ORDER.join(', ')}`,
    );
  }
  const folder = STEPS[kind]!;
  if (folder === null || path === folder || (kind === 'Dense' && isDenseFolder(path))) return;
  const expected = kind === 'Dense' ? 'a folder like 2_Dense' : folder;
  throw new ModelLoadError(`${file}: the files of ${kind} must be in ${expected}, got ${preview(path)}`);
}

/** What is made of one row for each text comes behind the pooling, and only dense layers come several times. */
function expectOrder({ path: file }: ModelText, steps: readonly SentenceStep[]): void {
  const isMisplaced = ({ kind }: SentenceStep, index: number): boolean => {
    const before = steps[index - 1]?.kind ?? '';
    const place = ORDER.indexOf(kind) - ORDER.indexOf(before);
    const needsPooling = kind === 'Dense' && !steps.slice(0, index).some((step) => step.kind === 'Pooling');
    return needsPooling || place < 0 || (place === 0 && kind !== 'Dense');
  };
  const misplaced = steps.findIndex(isMisplaced);
  if (misplaced < 0) return;
  throw new ModelLoadError(
    `${file}: the steps must be in the order ${ORDER.join(', ')}, each once but for Dense, which needs Pooling before it; ` +
      `got ${steps.map(({ kind }) => kind).join(', ')}`,
  );
}

const MODES: Readonly<Record<string, PooledRows>> = {
  cls: 'cls',
  mean: 'mean',
  lasttoken: 'last',
  pooling_mode_cls_token: 'cls',
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_lasttoken: 'last',
};

function readRows(files: ModelFiles): PooledRows {
  const found = expectFile(files, '1_Pooling/config.json');
  const { pooling_mode: named, include_prompt, ...flags } = parseModelJson(found, pooling);
  if (include_prompt === false) {
    throw new ModelLoadError(
      `${found.path}: include_prompt must be true: pooling without the tokens of prompts is not supported`,
    );
  }
  const set = Object.entries(flags).filter(([name, value]) => name.startsWith('pooling_mode') && value);
  const modes = named ? [named].flat() : set.map(([name]) => name);
  const [mode] = modes;
  if (mode !== undefined && modes.length === 1 && Object.hasOwn(MODES, mode)) return MODES[mode]!;
  throw new ModelLoadError(
    `${found.path}: exactly one kind of pooling must be chosen, that of the first token (cls), of the last one or the mean ` +
      `of all; got ${modes.map((one) => preview(one)).join(', ') || 'none'}`,
  );
}

function readPrompts(files: ModelFiles): TextPrompts {
  const found = files.read('config_sentence_transformers.json');
  if (found === null) return { texts: new Map(), defaultName: null };
  const fields = parseModelJson(found, prompts);
  const texts = new Map(Object.entries(fields.prompts ?? {}));
  const defaultName = fields.default_prompt_name ?? null;
  if (defaultName === null || texts.has(defaultName)) return { texts, defaultName };
  throw new ModelLoadError(
    `${found.path}: default_prompt_name must be one of prompts, got ${preview(defaultName)}`,
  );
}

function readScoreTokens(files: ModelFiles): SentenceFiles['scoreTokens'] {
  const found = expectFile(files, '1_LogitScore/config.json');
  const { true_token_id: yes, false_token_id: no } = parseModelJson(found, logitScore);
  return { yes, no: no ?? null };
}

/** By the ends of their names in config.json. */
const ACTIVATIONS: Readonly<Record<string, HeadActivation>> = {
  Identity: 'none',
  Tanh: 'tanh',
  ReLU: 'relu',
  GELU: 'gelu',
  SiLU: 'silu',
};

function readDense(files: ModelFiles, name: DenseFolder): DenseLayer {
  const found = expectFile(files, `${name}/${DENSE_CONFIG}`);
  const { in_features, out_features, bias, activation_function } = parseModelJson(found, dense);
  const activation = activation_function?.split('.').at(-1) ?? 'Tanh';
  if (Object.hasOwn(ACTIVATIONS, activation)) {
    const shape = { inputs: in_features, outputs: out_features, hasBias: bias ?? true };
    return { name, ...shape, activation: ACTIVATIONS[activation]! };
  }
  throw new ModelLoadError(
    `${found.path}: activation_function must be one of ${Object.keys(ACTIVATIONS).join(', ')}, got ${preview(activation)}`,
  );
}

function expectFile(files: ModelFiles, name: SentenceFileName): ModelText {
  const found = files.read(name);
  if (found !== null) return found;
  throw new ModelLoadError(
    `${files.path}/${name} is missing, and modules.json names it: fetch the model again`,
  );
}

const transformer = z.looseObject({
  max_seq_length: z.int().positive().nullish(),
  do_lower_case: z.boolean().nullish(),
});

/**
 * Most tokens of a text that the model was made for; null where its files do not say.
 * @throws ModelLoadError where texts would have to be changed before they are tokenised.
 */
export function readMaxSequence(files: ModelFiles): number | null {
  const found = files.read('sentence_bert_config.json');
  if (found === null) return null;
  const { max_seq_length, do_lower_case } = parseModelJson(found, transformer);
  if (do_lower_case) {
    throw new ModelLoadError(
      `${found.path}: do_lower_case must be false: texts are only changed as the tokenizer's own files say`,
    );
  }
  return max_seq_length ?? null;
}
