// svc bench quality: what fewer bits of weights, or of keys and values, change in a model's predictions of a text.

import { readFile } from 'node:fs/promises';
import type { DTypeOption, EngineConfig } from '../../config/engine-config.ts';
import { toEngineConfig } from '../../config/llm-options.ts';
import { ConfigError } from '../../errors.ts';
import { downloadProgress } from '../../hub/download-progress.ts';
import { withFolders } from '../../models/model-folder.ts';
import { openModelSource } from '../../models/source/model-source.ts';
import { startLoadProgress } from '../../observability/load-progress.ts';
import { loadTokenizer } from '../../tokenizer/load-tokenizer.ts';
import { printFigures } from './bench-report.ts';
import { type Comparison, LogitComparer } from './compare-logits.ts';
import { expectWritable } from './output-file.ts';
import { Predictor } from './predictor.ts';

/** What is judged; the rest is as published. */
type Precision = Pick<EngineConfig, 'quantization' | 'kvCacheDtype'>;

interface QualityOptions {
  /** Folder or name on the hub; undefined is the bundled model. */
  readonly model: string | undefined;
  readonly precision: Precision;
  /** Of weights and activations of both models. */
  readonly dtype: DTypeOption;
  readonly textFile: string;
  /** Tokens of the text that are looked at. */
  readonly numTokens: number;
  /** File for the figures as JSON; `-` is stdout, in place of the table. */
  readonly outputJson?: string | undefined;
}

/** The text is cut into pieces of so many tokens, or as many as the model's context has, each predicted by itself. */
const WINDOW = 512;

/** @throws ConfigError for a file that cannot be read or is too short; ModelLoadError for the model. */
export async function benchQuality(options: QualityOptions): Promise<void> {
  await expectWritable('output-json', options.outputJson);
  const progress = await startLoadProgress((line) => process.stderr.write(`${line}\n`));
  try {
    const show = progress.update.bind(progress);
    const named = toEngineConfig({ model: options.model, dtype: options.dtype });
    const plain = await withFolders(named, { onProgress: downloadProgress(show) });
    const tokens = await readTokens(plain.modelPath, options);
    const quality = await comparePrecision(plain, options.precision, tokens, show);
    progress.stop();
    await printFigures(tableOf(options, quality), jsonOf(options, quality), options.outputJson);
  } finally {
    progress.stop();
  }
}

export interface Quality extends Comparison {
  readonly dtype: string;
  /** Of the weights that a token reads. */
  readonly weightBytes: { readonly expected: number; readonly actual: number };
}

/** The predictions of `tokens` by the model as it is published, and in the precision to judge. */
export async function comparePrecision(
  plain: EngineConfig,
  precision: Precision,
  tokens: readonly number[],
  onProgress: (fraction: number, what: string) => void = () => {},
): Promise<Quality> {
  const expected = await Predictor.load(plain, WINDOW, onProgress);
  try {
    const actual = await Predictor.load({ ...plain, ...precision }, WINDOW, onProgress);
    try {
      const { dtype, weightBytes } = expected.model;
      const comparison = compare(expected, actual, tokens, onProgress);
      return {
        ...comparison,
        dtype,
        weightBytes: { expected: weightBytes, actual: actual.model.weightBytes },
      };
    } finally {
      actual.close();
    }
  } finally {
    expected.close();
  }
}

async function readTokens(path: string, { textFile, numTokens }: QualityOptions): Promise<number[]> {
  const text = await readFile(textFile, 'utf8').catch((error: Error) => {
    throw new ConfigError(`--text-file ${textFile} cannot be read: ${error.message}`, { param: 'text-file' });
  });
  const { tokenizer } = await loadTokenizer(openModelSource(path));
  const tokens = await tokenizer.encode(text, { addSpecialTokens: false });
  await tokenizer.close();
  if (tokens.length < 2) {
    throw new ConfigError(`--text-file ${textFile} has ${tokens.length} tokens: at least 2 are needed`, {
      param: 'text-file',
    });
  }
  return tokens.slice(0, numTokens);
}

function compare(
  expected: Predictor,
  actual: Predictor,
  tokens: readonly number[],
  onProgress: (fraction: number, what: string) => void,
): Comparison {
  const comparer = new LogitComparer();
  const length = Math.min(WINDOW, expected.model.config.maxPositionEmbeddings);
  for (let first = 0; first + 1 < tokens.length; first += length) {
    const window = tokens.slice(first, first + length);
    const rows: Float32Array[] = [];
    expected.predict(window, (_, logits) => void rows.push(logits.slice()));
    actual.predict(window, (position, logits) => {
      const next = window[position + 1];
      if (next !== undefined) comparer.add(rows[position]!, logits, next);
    });
    onProgress(first / tokens.length, 'comparing');
  }
  return comparer.result();
}

function jsonOf({ precision }: QualityOptions, quality: Quality): object {
  const { numTokens, perplexity, meanKl, agreement, dtype, weightBytes } = quality;
  return { ...precision, dtype, numTokens, weightBytes, perplexity, meanKl, agreement };
}

function tableOf({ precision }: QualityOptions, quality: Quality): string {
  const { numTokens, perplexity, meanKl, agreement, dtype, weightBytes } = quality;
  const rows = [
    [`${numTokens} tokens`, dtype, precision.quantization ?? dtype],
    ...(precision.kvCacheDtype === 'auto'
      ? []
      : [['keys and values', dtype, precision.kvCacheDtype] as const]),
    ['weights read a token', megabytes(weightBytes.expected), megabytes(weightBytes.actual)],
    ['perplexity', perplexity.expected.toFixed(3), perplexity.actual.toFixed(3)],
    ['mean KL divergence', '', meanKl.toFixed(5)],
    ['same most probable token', '', `${(agreement * 100).toFixed(1)} %`],
  ] as const;
  return rows.map(([name, a, b]) => `${name.padEnd(26)}${a.padStart(12)}${b.padStart(12)}\n`).join('');
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
