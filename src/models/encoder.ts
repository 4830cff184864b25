// A model whose tokens see those after them, too: embeddings of words, positions and kinds of texts, layers, and what is made
// of the rows that are asked for.

import type { ComputeDType, KvDType } from '../ops/dtype.ts';
import type { KvCache, KvCacheShape, Ops, Tensor } from '../ops/ops.ts';
import type { LinearWeight } from '../ops/weights.ts';
import type { LoadContext } from './architecture.ts';
import { makePositionTables } from './decoder.ts';
import { type CacheSize, kvCacheShape } from './kv-cache-shape.ts';
import type { Layer, LayerContext, LoadLayer } from './layers/layer.ts';
import { type LoadNorm, layerNormInPlace, type Norm } from './layers/norm.ts';
import type { Step } from './layers/step.ts';
import type { ForwardInputs, Model } from './model.ts';
import type { ModelConfig } from './model-config.ts';
import { loadDense, type PoolingHead } from './pooling/pooling-head.ts';
import type { RankShare } from './rank-share.ts';
import { wantedRows } from './wanted-rows.ts';
import { positionRows } from './weights/weight-reader.ts';

/** @param root the names of the model's tensors, but not those of its head, begin with it. */
export type LoadEncoderHead = (context: LoadContext, root: string) => PoolingHead;

/** What the architectures make an encoder from. */
interface EncoderDesign {
  readonly layer: LoadLayer;
  /** What makes a score of a row. */
  readonly head: LoadEncoderHead;
  /** Whether the norm of the embeddings has a bias; left out, it has. */
  readonly hasNormBias?: boolean;
  /** The norm of the rows that are asked for; left out: they are as the last layer made them. */
  readonly finalNorm?: LoadNorm;
}

/** Loads an encoder, in the order in which a step uses it. */
export async function loadEncoder(context: LoadContext, design: EncoderDesign): Promise<Model> {
  const { config, weights, names, progress } = context;
  const { numLayers, pooling } = config;
  const { first, end } = context.layers;
  const isLast = end === numLayers;
  const done = (steps: number, what: string) => progress(steps / (end - first + 2), what);
  const layerContext: LayerContext = {
    config,
    weights,
    ropeTables: makePositionTables(context, context.maxModelLen).ropes,
    growthTable: () => null,
    // All share the memory of one.
    cacheLayerOf: () => 0,
  };
  const root = names.layers.slice(0, -config.tensorNames.layers.length);
  const embeddings = first === 0 ? loadEmbeddings(context, layerContext, root, design) : null;
  await done(1, 'embeddings');
  const layers: Layer[] = [];
  for (let layer = first; layer < end; layer++) {
    layers.push(design.layer(layerContext, layer, `${names.layers}.${layer}`));
    await done(layer - first + 2, `layer ${layer + 1} of ${numLayers}`);
  }
  const finalNorm = isLast ? (design.finalNorm?.(layerContext, names.finalNorm!) ?? null) : null;
  const loadHead = () =>
    pooling?.task === 'embed' ? loadDense(weights, pooling) : design.head(context, root);
  const poolingHead = isLast ? loadHead() : null;
  await done(end - first + 2, 'output');
  return new Encoder(context, { embeddings, layers, finalNorm, poolingHead });
}

/** What is added to the embeddings of words are small tables, which each rank has. */
function loadEmbeddings(
  { config, weights, names }: LoadContext,
  layerContext: LayerContext,
  root: string,
  { hasNormBias }: EncoderDesign,
): Embeddings {
  const { hiddenSize, encoder } = config;
  const { positions, numTokenTypes } = encoder!;
  const types = { name: `${root}embeddings.token_type_embeddings`, n: numTokenTypes, shared: null };
  return {
    words: weights.embedding({ name: names.embedding, n: config.vocabSize }, hiddenSize),
    positions:
      positions &&
      weights.embedding(positionRows(names.positions!, positions.count, positions.offset), hiddenSize),
    tokenTypes: numTokenTypes > 0 ? weights.embedding(types, hiddenSize) : null,
    norm: layerNormInPlace(layerContext, names.embeddingNorm!, hasNormBias),
  };
}

interface Embeddings {
  /** [vocab, hidden] */
  readonly words: LinearWeight;
  /** [max positions, hidden]; null where they are not learned. */
  readonly positions: LinearWeight | null;
  /** [kinds, hidden]; null where there are none. */
  readonly tokenTypes: LinearWeight | null;
  /** Of the sum of the three. */
  readonly norm: Layer;
}

interface EncoderParts {
  /** Null where an earlier stage has them. */
  readonly embeddings: Embeddings | null;
  readonly layers: readonly Layer[];
  readonly finalNorm: Norm | null;
  readonly poolingHead: PoolingHead | null;
}

class Encoder implements Model {
  readonly config: ModelConfig;
  readonly dtype: ComputeDType;
  readonly kvDType: KvDType;
  readonly weightFormat: string;
  readonly weightBytes: number;
  readonly loraTargets = [];
  readonly shortContext = null;
  readonly imageEncoder = null;
  readonly poolingHead: PoolingHead | null;
  readonly #ops: Ops;
  readonly #parts: EncoderParts;
  readonly #share: RankShare;

  constructor({ config, ops, weights, kvDType }: LoadContext, parts: EncoderParts) {
    this.config = config;
    this.dtype = weights.dtype;
    this.kvDType = kvDType;
    this.weightFormat = weights.formatName;
    this.weightBytes = weights.packedBytes;
    this.#ops = ops;
    this.#parts = parts;
    this.#share = weights.share;
    this.poolingHead = parts.poolingHead;
  }

  kvCacheShape(size: CacheSize): KvCacheShape {
    return kvCacheShape(this.config, this.kvDType, size, this.#share);
  }

  forward(inputs: ForwardInputs, cache: KvCache): Tensor {
    const ops = this.#ops;
    const step: Step = { ops, inputs: ops.beginStep(cache, inputs) };
    const x = inputs.hidden ?? this.#embed(inputs, step);
    for (const [index, layer] of this.#parts.layers.entries()) {
      ops.scope(() => layer(x, step));
      inputs.onLayer?.(index);
    }
    return x;
  }

  logits(hidden: Tensor, rows: Int32Array): Tensor {
    const ops = this.#ops;
    const wanted = wantedRows(ops, hidden, rows);
    return this.#parts.finalNorm?.({ ops }, wanted, 'f32') ?? wanted;
  }

  #embed({ tokens, positions, tokenTypes }: ForwardInputs, step: Step): Tensor {
    const ops = this.#ops;
    const parts = this.#parts.embeddings;
    if (parts === null) throw new Error('the embeddings are with an earlier stage');
    const total = this.config.vocabSize;
    const x = ops.embedding(tokens, parts.words, { first: this.#share.of(total).first, total });
    ops.sumRanks(x);
    const add = (ids: Int32Array, table: LinearWeight): void =>
      ops.scope(() => ops.addScaled(x, ops.embedding({ ids, sampled: null }, table), 1));
    if (parts.tokenTypes !== null) {
      const isOne = parts.tokenTypes.n === 1 || tokenTypes === undefined;
      add(isOne ? new Int32Array(positions.length) : tokenTypes, parts.tokenTypes);
    }
    if (parts.positions !== null) add(positions, parts.positions);
    parts.norm(x, step);
    return x;
  }
}
