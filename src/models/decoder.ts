// A decoder-only language model: embeddings, layers, final norm, and logits for the rows that are asked for; or the rows
// themselves, of which a pooling model makes vectors or scores.

import type { ComputeDType, KvDType } from '../ops/dtype.ts';
import { roundTo } from '../ops/float-formats.ts';
import type { KvCache, KvCacheShape, Ops, Tensor, TokenIds } from '../ops/ops.ts';
import type { LinearWeight, Vector } from '../ops/weights.ts';
import type { LoraTarget } from './adapters/lora-target.ts';
import type { LoadContext } from './architecture.ts';
import { type CacheSize, kvCacheShape } from './kv-cache-shape.ts';
import type { Layer, LayerContext, LoadLayer, RopeTables } from './layers/layer.ts';
import type { LayerInputs } from './layers/layer-inputs.ts';
import { type LoadNorm, type Norm, rmsNorm } from './layers/norm.ts';
import { ropeTables, scaledTable, scalingTable, shortContext } from './layers/rope.ts';
import type { Step } from './layers/step.ts';
import type { Streams } from './layers/streams.ts';
import type { ForwardInputs, ImageRows, Model } from './model.ts';
import { layerHeadsOf, type ModelConfig } from './model-config.ts';
import type { PoolingConfig } from './pooling/pooling-config.ts';
import { loadDense, type PoolingHead, product } from './pooling/pooling-head.ts';
import { growthFactors } from './query-growth.ts';
import type { RankShare } from './rank-share.ts';
import { cacheLayerOf } from './recurrent-layers.ts';
import type { RopeConfig } from './rope-config.ts';
import type { ImageEncoder } from './vision/image-encoder.ts';
import { wantedRows } from './wanted-rows.ts';
import { positionRows } from './weights/weight-reader.ts';

/** What the architectures make a decoder from. */
interface DecoderDesign {
  readonly layer: LoadLayer;
  /** The norm before the output head. */
  readonly norm?: LoadNorm;
  /** What layers get of each token for themselves. */
  readonly layerInputs?: (context: LoadContext) => LayerInputs;
  /** What becomes of the embeddings before the first layer, and of the streams behind the last; left out, nothing. */
  readonly streams?: (context: LoadContext) => Streams;
}

/** Loads a decoder: embeddings, layers, head, in the order in which a step uses them. */
export async function loadDecoder(context: LoadContext, design: DecoderDesign): Promise<Decoder> {
  const { config, weights, names, progress } = context;
  const { vocabSize, hiddenSize, numLayers, pooling } = config;
  const { first, end } = context.layers;
  const [isFirst, isLast] = [first === 0, end === numLayers];
  const isTied = config.tieWordEmbeddings && pooling === null;
  const done = (steps: number, what: string) => progress(steps / (end - first + 2), what);
  const { maxModelLen, servedLength } = context;
  // First: threads of the backend may be reading packed weights already.
  const tables: PositionTables = { ropes: new Map(), growth: null };
  if (servedLength === null) makePositionTables(context, maxModelLen, tables);
  const layerContext: LayerContext = {
    config,
    weights,
    ropeTables: tables.ropes,
    growthTable: () => tables.growth,
    cacheLayerOf: (layer) => cacheLayerOf(config, context.layers, layer),
  };
  const table = { name: names.embedding, n: vocabSize };
  const loadTable = () => (isTied ? weights.head(table, hiddenSize) : weights.embedding(table, hiddenSize));
  const embedding = isFirst ? loadTable() : null;
  const positions =
    isFirst && names.positions
      ? weights.embedding(
          positionRows(names.positions, config.maxPositionEmbeddings, names.positionOffset),
          hiddenSize,
        )
      : null;
  const layerInputs = isFirst && config.layerInputs !== null ? design.layerInputs!(context) : null;
  const streams = design.streams?.(context) ?? null;
  await done(1, 'embeddings');
  const layers: Layer[] = [];
  for (let layer = first; layer < end; layer++) {
    layers.push(design.layer(layerContext, layer, `${names.layers}.${layer}`));
    await done(layer - first + 2, `layer ${layer + 1} of ${numLayers}`);
  }
  const finalNorm = isLast ? (design.norm ?? rmsNorm)(layerContext, names.finalNorm!) : null;
  const loadOutput = () => (isTied ? (embedding ?? loadTable()) : loadHead(context));
  const head = pooling || !isLast ? null : loadOutput();
  const poolingHead = isLast && pooling ? loadPoolingHead(context, pooling) : null;
  await done(end - first + 2, 'output head');
  if (servedLength !== null) makePositionTables(context, await servedLength(), tables);
  return new Decoder(context, {
    embedding,
    positions,
    layerInputs,
    streams,
    layers,
    finalNorm,
    head,
    poolingHead,
  });
}

function loadHead({ config, weights, names }: LoadContext): LinearWeight {
  const { vocabSize: n, hiddenSize, headBias: bias } = config;
  return weights.head({ name: names.head, n, bias }, hiddenSize);
}

/** Null where the rows themselves are the result. */
function loadPoolingHead(
  { config, weights, names }: LoadContext,
  pooling: PoolingConfig,
): PoolingHead | null {
  if (pooling.task === 'embed') return loadDense(weights, pooling);
  const { hiddenSize, vocabSize: n, tieWordEmbeddings: isTied, headBias: bias } = config;
  if (pooling.head.kind === 'classifier')
    return product(weights.classifier('score', pooling.head.numLabels, hiddenSize, false));
  const { tokenIds } = pooling.head;
  return product(
    weights.rows({ name: isTied ? names.embedding : names.head, n, bias }, tokenIds, hiddenSize),
  );
}

/** What positions are looked up in. */
interface PositionTables {
  /** Layers that rotate alike share them. */
  readonly ropes: Map<RopeConfig, RopeTables>;
  growth: Vector | null;
}

/** @param length longest context that comes */
export function makePositionTables(
  context: LoadContext,
  length: number,
  tables: PositionTables = { ropes: new Map(), growth: null },
): PositionTables {
  const { queryGrowth, headDim } = context.config;
  const factors = queryGrowth && growthFactors(queryGrowth, length);
  const growsByRope = queryGrowth?.layers === 'with positions';
  makeRopeTables(context, length, growsByRope ? factors : null, tables.ropes);
  if (factors && !growsByRope) tables.growth = context.ops.makeVector(scalingTable(factors, headDim));
  return tables;
}

/** @param factors [length] on queries; null where they are 1 */
function makeRopeTables(
  { config, ops, maxModelLen: limit }: LoadContext,
  length: number,
  factors: Float64Array | null,
  tables: Map<RopeConfig, RopeTables>,
): void {
  const { layerRopes, latent } = config;
  const short = shortContext(layerRopes, limit);
  for (const [layer, rope] of layerRopes.entries()) {
    if (rope === null || tables.has(rope)) continue;
    const { rotaryDim } = layerHeadsOf(config, layer);
    const table = ropeTables(rope, rotaryDim, { length, limit }, short);
    const keys = ops.makeVector(table);
    tables.set(rope, {
      keys,
      queries: factors ? ops.makeVector(scaledTable(table, factors)) : keys,
      unturned: factors && latent ? ops.makeVector(scalingTable(factors, latent.nopeDim)) : null,
    });
  }
}

interface DecoderParts {
  /** [vocab, hidden]; null where an earlier stage has it. */
  readonly embedding: LinearWeight | null;
  /** [max positions, hidden]; null where positions are not learned. */
  readonly positions: LinearWeight | null;
  /** Null where layers get nothing for themselves. */
  readonly layerInputs: LayerInputs | null;
  /** Null where the stream is one, as it is embedded. */
  readonly streams: Streams | null;
  readonly layers: readonly Layer[];
  /** Null where a later stage has it. */
  readonly finalNorm: Norm | null;
  /** [vocab, hidden]; the very embeddings where the two are tied. Null where the rows are pooled, or a later stage has it. */
  readonly head: LinearWeight | null;
  readonly poolingHead: PoolingHead | null;
}

class Decoder implements Model {
  readonly config: ModelConfig;
  readonly dtype: ComputeDType;
  readonly kvDType: KvDType;
  readonly weightFormat: string;
  readonly weightBytes: number;
  readonly shortContext: number | null;
  readonly loraTargets: readonly LoraTarget[];
  readonly imageEncoder: ImageEncoder | null;
  readonly poolingHead: PoolingHead | null;
  readonly #ops: Ops;
  readonly #parts: DecoderParts;
  readonly #share: RankShare;
  readonly #embeddingScale: number;
  /** Of those that are here, among all of the model. */
  readonly #firstLayer: number;

  constructor(context: LoadContext, parts: DecoderParts) {
    const { config, ops, weights, kvDType, maxModelLen } = context;
    this.config = config;
    this.#ops = ops;
    this.#parts = parts;
    this.#share = weights.share;
    this.#firstLayer = context.layers.first;
    this.dtype = weights.dtype;
    const scale = Float32Array.of(config.embeddingScale);
    // Where the original computes in bfloat16, the factor is of that format too.
    roundTo(this.dtype, scale);
    this.#embeddingScale = scale[0]!;
    this.kvDType = kvDType;
    this.weightFormat = weights.formatName;
    this.weightBytes = weights.packedBytes;
    this.shortContext = shortContext(config.layerRopes, maxModelLen);
    this.loraTargets = weights.loraTargets;
    this.imageEncoder = context.imageEncoder;
    this.poolingHead = parts.poolingHead;
  }

  kvCacheShape(size: CacheSize): KvCacheShape {
    return kvCacheShape(this.config, this.kvDType, size, this.#share);
  }

  forward(inputs: ForwardInputs, cache: KvCache): Tensor {
    const ops = this.#ops;
    const parts = this.#parts;
    const begun: Step = { ops, inputs: ops.beginStep(cache, inputs) };
    const embedded = inputs.hidden ?? this.#embed(inputs);
    const layerInputs = parts.layerInputs?.apply(begun, this.#layerTokens(inputs), embedded);
    const x = parts.streams?.begin(begun, embedded) ?? embedded;
    const step = layerInputs === undefined ? begun : { ...begun, layerInputs };
    for (const [index, layer] of parts.layers.entries()) {
      ops.scope(() => layer(x, step));
      this.#addDeepRows(x, inputs.imageRows, this.#firstLayer + index);
      inputs.onLayer?.(index);
    }
    return x;
  }

  /** Whose embeddings the layers get: tokens of images have that of one which all images share. */
  #layerTokens({ tokens, imageRows }: ForwardInputs): TokenIds {
    return imageRows ? withoutRows(tokens, imageRows, this.config.layerInputs!.ofImages!) : tokens;
  }

  /** What images give behind a layer, where they give something. */
  #addDeepRows(x: Tensor, imageRows: ImageRows | undefined, layer: number): void {
    const numLayers = this.config.vision?.deepLayers.length ?? 0;
    if (imageRows && layer < numLayers) addImageRows(this.#ops, x, imageRows, 1 + layer);
  }

  #embed(inputs: ForwardInputs): Tensor {
    const ops = this.#ops;
    const { embedding, positions } = this.#parts;
    if (embedding === null) throw new Error('the embeddings are with an earlier stage');
    const { vocabSize } = this.config;
    const { first } = this.#share.of(vocabSize);
    const { imageRows } = inputs;
    const tokens = imageRows ? withoutRows(inputs.tokens, imageRows, vocabSize) : inputs.tokens;
    const x = ops.embedding(tokens, embedding, { first, total: imageRows ? vocabSize + 1 : vocabSize });
    ops.sumRanks(x);
    if (this.#embeddingScale !== 1) ops.scale(x, this.#embeddingScale);
    if (imageRows) addImageRows(ops, x, imageRows, 0);
    if (positions !== null) {
      ops.scope(() =>
        ops.addScaled(x, ops.embedding({ ids: inputs.positions, sampled: null }, positions), 1),
      );
    }
    return x;
  }

  logits(hidden: Tensor, rows: Int32Array): Tensor {
    const ops = this.#ops;
    const { streams, finalNorm, head } = this.#parts;
    if (finalNorm === null) throw new Error('the output head is with a later stage');
    const chosen = wantedRows(ops, hidden, rows);
    const wanted = streams?.end({ ops }, chosen) ?? chosen;
    const { vocabSize, logitScale, logitSoftcap } = this.config;
    if (head === null) return finalNorm({ ops }, wanted, 'f32');
    const own = ops.linear(finalNorm({ ops }, wanted, head.inputDType), head);
    const logits = ops.gatherColumns(own, this.#share.widths(vocabSize), ops.ranks.rank === 0);
    if (logitScale !== 1) ops.scale(logits, logitScale);
    if (logitSoftcap !== null) ops.softcap(logits, logitSoftcap);
    return logits;
  }
}

/** The tokens of images become `noToken`. Of one that no table has the row is all -0. */
function withoutRows({ ids, sampled }: TokenIds, { rows }: ImageRows, noToken: number): TokenIds {
  const others = ids.slice();
  for (const row of rows) others[row] = noToken;
  return { ids: others, sampled };
}

/** @param part of their values: the first one is added to rows that are all -0. */
function addImageRows(ops: Ops, x: Tensor, { rows, values }: ImageRows, part: number): void {
  const all = new Float32Array(x.rows * x.cols).fill(-0);
  const width = values.length / rows.length;
  for (const [index, row] of rows.entries()) {
    const first = index * width + part * x.cols;
    all.set(values.subarray(first, first + x.cols), row * x.cols);
  }
  ops.scope(() => ops.addScaled(x, ops.tensor(all, x.rows, x.cols, 'f32'), 1));
}
