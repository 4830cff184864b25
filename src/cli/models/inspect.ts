// svc models inspect: what a model is, whether it runs here, and what memory it takes.

import { engineConfig, mergeOptions } from '../../config/merge.ts';
import { readModelText } from '../../engine/model-text.ts';
import { ModelLoadError } from '../../errors.ts';
import { type InspectableModel, inspectableModel } from '../../hub/inspectable-model.ts';
import type { HubOptions } from '../../hub/model-hub.ts';
import type { ModelConfig } from '../../models/model-config.ts';
import type { PooledRows, PoolingConfig } from '../../models/pooling/pooling-config.ts';
import { expectDense } from '../../models/pooling/pooling-head.ts';
import { readModelConfig } from '../../models/registry.ts';
import type { Checkpoint } from '../../models/source/checkpoint.ts';
import { GgufSource } from '../../models/source/gguf/gguf-source.ts';
import { openModelSource } from '../../models/source/model-source.ts';
import { findTensorNames } from '../../models/tensor-names.ts';
import { expectItsLayers } from '../../models/weights/checkpoint-fit.ts';
import { freeHostMemory } from '../../ops/host-memory.ts';
import { keepsCodeBits } from '../../ops/select.ts';
import { estimateLoads, type LoadEstimate, numbersIn } from '../../runner/memory-estimate.ts';
import { bytes } from '../../util/bytes.ts';
import { isGgufPath } from '../../util/model-file.ts';
import { shortened } from '../../util/preview.ts';
import { table } from '../table.ts';

interface InspectOptions extends HubOptions {
  readonly isJson: boolean;
}

export async function inspectModel(name: string, { isJson, ...options }: InspectOptions): Promise<void> {
  const model = await inspectableModel(name, options);
  const report = await reportOf(name, model);
  process.stdout.write(isJson ? `${JSON.stringify(report, null, 2)}\n` : textOf(report));
}

interface Report {
  readonly model: string;
  readonly path: string;
  readonly isDownloaded: boolean;
  readonly publishedBytes: number;
  readonly freeMemoryBytes: number;
  /** Null where svc does not know this architecture; `reason` tells more. */
  readonly shape: ReturnType<typeof shapeOf> | null;
  readonly runsHere: boolean;
  readonly reason: string;
  readonly loads: readonly LoadEstimate[];
}

async function reportOf(
  name: string,
  { path, weightBytes, isDownloaded }: InspectableModel,
): Promise<Report> {
  const freeMemoryBytes = freeHostMemory();
  const about = { model: name, path, isDownloaded, publishedBytes: weightBytes, freeMemoryBytes };
  const contents = readContents(path, isDownloaded, weightBytes);
  if (typeof contents === 'string') {
    return { ...about, shape: null, runsHere: false, reason: contents, loads: [] };
  }
  const { config, numbers } = contents;
  const engine = engineConfig(path, mergeOptions());
  const { gpuMemoryUtilization: share, maxNumBatchedTokens: maxStepTokens } = engine;
  const loadedBytes = isGgufPath(path)
    ? new GgufSource(path).loadedBytes(keepsCodeBits(engine))
    : weightBytes;
  const memory = { freeBytes: freeMemoryBytes, share, maxStepTokens };
  const loads = estimateLoads(config, { bytes: loadedBytes, numbers }, memory);
  const obstacle = isDownloaded ? await reasonAgainst(() => readModelText(engine)) : null;
  return {
    ...about,
    shape: shapeOf(config, numbers),
    runsHere: obstacle === null && loads.some(hasRoom),
    reason: obstacle ?? verdict(loads, config),
    loads,
  };
}

interface Contents {
  readonly config: ModelConfig;
  /** Of weights; null where these are quantised and not here, or in words of codes, of which one may hold four or eight. */
  readonly numbers: number | null;
}

/** The reason why it cannot be read, where it cannot. */
function readContents(path: string, isDownloaded: boolean, weightBytes: number): Contents | string {
  try {
    const source = openModelSource(path);
    const config = readModelConfig(source);
    const isPlain = config.quantization === null;
    if (!isDownloaded) return { config, numbers: isPlain ? numbersIn(config, weightBytes) : null };
    const checkpoint = source.openCheckpoint();
    const isTold = isPlain || isGgufPath(path);
    return { config: withWeights(config, checkpoint), numbers: isTold ? checkpoint.numNumbers : null };
  } catch (error) {
    if (error instanceof ModelLoadError) return error.message;
    throw error;
  }
}

/** Null where the model can be read. */
async function reasonAgainst(read: () => Promise<unknown>): Promise<string | null> {
  try {
    await read();
    return null;
  } catch (error) {
    if (error instanceof ModelLoadError) return error.message;
    throw error;
  }
}

const FLOATS = ['f32', 'f16', 'bf16'] as const;

/**
 * Where config.json does not say in which format the weights are, they do.
 * @throws ModelLoadError where they are not those of config.json, as far as can be told by their names and shapes.
 */
function withWeights(config: ModelConfig, checkpoint: Checkpoint): ModelConfig {
  if (config.pooling?.task === 'embed') expectDense(checkpoint, config.pooling);
  const names = findTensorNames(checkpoint, config.tensorNames);
  expectItsLayers(checkpoint, config, names);
  const table = `${names.embedding}.weight`;
  const stored = FLOATS.find((dtype) => dtype === checkpoint.dtypeOf(table));
  if (stored !== undefined) checkpoint.find(table, [config.vocabSize, config.hiddenSize]);
  if (config.checkpointDType !== null || config.quantization !== null) return config;
  return { ...config, checkpointDType: stored ?? 'bf16' };
}

function shapeOf(config: ModelConfig, numbers: number | null) {
  const { architecture, numLayers, hiddenSize, numHeads, numKvHeads, headDim } = config;
  return {
    architecture,
    parameters: numbers,
    format: config.quantization?.method ?? config.checkpointDType ?? 'bf16',
    numLayers,
    hiddenSize,
    numHeads,
    numKvHeads,
    headDim,
    otherHeads: otherHeadsOf(config),
    vocabSize: config.vocabSize,
    contextLength: config.maxPositionEmbeddings,
    slidingWindow: config.windowsAreChunks ? null : config.slidingWindow,
    attentionChunk: config.windowsAreChunks ? config.slidingWindow : null,
    /** Of a layer that has some, and how many of them compute a token; null where no layer has. */
    experts: config.experts && { count: config.experts.count, perToken: config.experts.routing.topK },
    seesImages: config.vision !== null && config.pooling === null,
    /** Of a model that does not generate. */
    pooling: config.pooling && resultOf(config.pooling),
  };
}

/** Keys and values of layers without a window, where they have others than those with one. */
function otherHeadsOf({ layerHeads, numKvHeads, headDim }: ModelConfig) {
  const other = layerHeads?.find((heads) => heads.kvHeads !== numKvHeads || heads.headDim !== headDim);
  return other ? { numKvHeads: other.kvHeads, headDim: other.headDim } : null;
}

/** What it makes of a text. */
function resultOf(pooling: PoolingConfig) {
  if (pooling.task === 'score') return { task: pooling.task };
  const { task, rows, size, dimensions, prompts } = pooling;
  const { texts, defaultName } = prompts;
  return { task, rows, size, dimensions, prompts: Object.fromEntries(texts), defaultPrompt: defaultName };
}

function tokensOf({ cacheTokens }: LoadEstimate): number {
  return Math.max(0, ...Object.values(cacheTokens));
}

function hasRoom(load: LoadEstimate): boolean {
  return tokensOf(load) > 0;
}

function verdict(loads: readonly LoadEstimate[], { maxPositionEmbeddings: limit }: ModelConfig): string {
  const whole = loads.find((load) => Object.values(load.cacheTokens)[0]! >= limit);
  if (whole !== undefined) return whole.quantization === null ? 'yes' : `with ${flagOf(whole)}`;
  const some = loads.find(hasRoom);
  if (some === undefined) return 'the weights take more memory than is free, however they are loaded';
  const length = '--max-model-len auto, since a request of the whole context has no room';
  return `with ${some.quantization === null ? length : `${flagOf(some)} and ${length}`}`;
}

function flagOf({ quantization }: LoadEstimate): string {
  return `--quantization ${quantization}`;
}

function textOf(report: Report): string {
  const { model, path, isDownloaded, publishedBytes, shape, runsHere, reason, loads, freeMemoryBytes } =
    report;
  const state = isDownloaded ? path : `not downloaded; svc download ${model} fetches it`;
  const rows = [
    ['model', model],
    ['weights', `${bytes(publishedBytes)}${shape === null ? '' : ` in ${shape.format}`}, ${state}`],
    ...(shape === null ? [] : shapeRows(shape)),
    ['runs here', runsHere ? reason : `no: ${reason}`],
    ['free memory', bytes(freeMemoryBytes)],
  ];
  const text = rows.map(([name = '', value]) => `${name.padEnd(13)} ${value}\n`).join('');
  return loads.length === 0 ? text : `${text}\n${loadTable(loads)}`;
}

function shapeRows(shape: NonNullable<Report['shape']>): string[][] {
  const { architecture, parameters, numLayers, hiddenSize, numHeads, numKvHeads, vocabSize } = shape;
  const { experts, slidingWindow, attentionChunk, otherHeads: other } = shape;
  const window = slidingWindow === null ? '' : `, windows of ${count(slidingWindow)} tokens`;
  const chunk = attentionChunk === null ? '' : `, chunks of ${count(attentionChunk)} tokens`;
  const others = other === null ? '' : `; ${other.numKvHeads} of ${other.headDim} in layers without`;
  const size = parameters === null ? '' : `${parametersText(parameters)} parameters, `;
  return [
    ['architecture', `${architecture}, ${size}${numLayers} layers of width ${hiddenSize}`],
    [
      'attention',
      `${numHeads} heads, ${numKvHeads} of keys and values, of ${shape.headDim}${window}${chunk}${others}`,
    ],
    ...(experts === null
      ? []
      : [['experts', `${experts.count} in a layer, of which ${experts.perToken} compute a token`]]),
    ['context', `${count(shape.contextLength)} tokens of a vocabulary of ${count(vocabSize)}`],
    ...(shape.seesImages ? [['reads', 'texts and images']] : []),
    ...(shape.pooling === null ? [] : poolingRows(shape.pooling)),
  ];
}

const ROWS: Readonly<Record<PooledRows, string>> = {
  cls: 'the first token',
  last: 'the last token',
  mean: 'the mean of all tokens',
};

function poolingRows(pooling: ReturnType<typeof resultOf>): string[][] {
  if (pooling.task === 'score') return [['makes', 'scores of how well two texts fit']];
  const { size, rows, prompts, defaultPrompt } = pooling;
  const names = Object.keys(prompts).map((name) =>
    name === defaultPrompt ? `${shortened(name)} (before all texts)` : shortened(name),
  );
  return [
    ['makes', `vectors of ${count(size)} numbers, of ${ROWS[rows]}`],
    ...(names.length === 0 ? [] : [['prompts', names.join(', ')]]),
  ];
}

function loadTable(loads: readonly LoadEstimate[]): string {
  const formats = [...new Set(loads.flatMap(({ cacheTokens }) => Object.keys(cacheTokens)))];
  const headings = [
    'QUANTIZATION',
    'MEMORY',
    ...formats.map((format) => `TOKENS OF CACHE IN ${format.toUpperCase()}`),
  ];
  const rows = loads.map(({ quantization, weightBytes, cacheTokens }) => {
    const tokens = new Map(Object.entries(cacheTokens));
    const cells = formats.map((format) => (tokens.has(format) ? count(tokens.get(format) ?? 0) : '-'));
    return [quantization ?? 'none', bytes(weightBytes), ...cells];
  });
  return table([headings, ...rows]);
}

function count(number: number): string {
  return number.toLocaleString('en-US');
}

function parametersText(number: number): string {
  return number < 1e9 ? `${(number / 1e6).toFixed(1)}M` : `${(number / 1e9).toFixed(1)}B`;
}
