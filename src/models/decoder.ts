// A decoder-only language model: embeddings, layers, final norm, and logits for the rows that are asked for.

import type { ComputeDType, KvDType } from '../ops/dtype.ts';
import type { KvCache, KvCacheShape, Ops, Tensor } from '../ops/ops.ts';
import type { LinearWeight, Vector } from '../ops/weights.ts';
import type { LoadContext } from './architecture.ts';
import { ropeTable } from './layers/rope.ts';
import type { Layer, Step } from './layers/step.ts';
import type { ForwardInputs, Model } from './model.ts';
import type { ModelConfig } from './model-config.ts';
import type { WeightReader } from './weights/weight-reader.ts';

type LoadLayer = (weights: WeightReader, config: ModelConfig, layer: number) => Layer;

/** Loads a decoder whose layers are those of `loadLayer`, under the names that most checkpoints use. */
export async function loadDecoder(context: LoadContext, loadLayer: LoadLayer): Promise<Decoder> {
  const { config, ops, weights, maxModelLen, progress } = context;
  const { vocabSize, hiddenSize, numLayers, tieWordEmbeddings: isTied } = config;
  const done = (steps: number, what: string) => progress(steps / (numLayers + 2), what);
  // First: threads of the backend may be reading packed weights already.
  const angles = ropeTable(config.rope, config.rotaryDim, maxModelLen);
  const table = { name: 'model.embed_tokens', n: vocabSize };
  const embedding = isTied ? weights.head(table, hiddenSize) : weights.embedding(table, hiddenSize);
  await done(1, 'embeddings');
  const layers: Layer[] = [];
  for (let layer = 0; layer < numLayers; layer++) {
    layers.push(loadLayer(weights, config, layer));
    await done(layer + 2, `layer ${layer + 1} of ${numLayers}`);
  }
  const finalNorm = weights.vector('model.norm.weight', hiddenSize);
  const head = isTied ? embedding : weights.head({ name: 'lm_head', n: vocabSize }, hiddenSize);
  await done(numLayers + 2, 'output head');
  return new Decoder(context, { embedding, layers, finalNorm, head, ropeTable: ops.makeVector(angles) });
}

interface DecoderParts {
  /** [vocab, hidden] */
  readonly embedding: LinearWeight;
  readonly layers: readonly Layer[];
  readonly finalNorm: Vector;
  /** [vocab, hidden]; the very embeddings where the two are tied. */
  readonly head: LinearWeight;
  readonly ropeTable: Vector;
}

export function kvCacheShape(
  { numLayers: layers, numKvHeads: kvHeads, headDim }: ModelConfig,
  dtype: KvDType,
  blocks: number,
  blockSize: number,
): KvCacheShape {
  return { layers, blocks, blockSize, kvHeads, headDim, dtype };
}

class Decoder implements Model {
  readonly config: ModelConfig;
  readonly dtype: ComputeDType;
  readonly kvDType: KvDType;
  readonly weightFormat: string;
  readonly weightBytes: number;
  readonly #ops: Ops;
  readonly #parts: DecoderParts;

  constructor({ config, ops, weights, kvDType }: LoadContext, parts: DecoderParts) {
    this.config = config;
    this.#ops = ops;
    this.#parts = parts;
    this.dtype = weights.dtype;
    this.kvDType = kvDType;
    this.weightFormat = weights.formatName;
    this.weightBytes = weights.packedBytes;
  }

  kvCacheShape(blocks: number, blockSize: number): KvCacheShape {
    return kvCacheShape(this.config, this.kvDType, blocks, blockSize);
  }

  forward(inputs: ForwardInputs, cache: KvCache): Tensor {
    const ops = this.#ops;
    const parts = this.#parts;
    const step: Step = { ops, inputs: ops.beginStep(cache, inputs), ropeTable: parts.ropeTable };
    const x = ops.embedding(inputs.tokens, parts.embedding);
    for (const [index, layer] of parts.layers.entries()) {
      ops.scope(() => layer(x, step));
      inputs.onLayer?.(index);
    }
    return x;
  }

  logits(hidden: Tensor, rows: Int32Array): Tensor {
    const ops = this.#ops;
    const { finalNorm, head } = this.#parts;
    const wanted = ops.gatherRows(hidden, rows);
    return ops.linear(ops.rmsNorm(wanted, finalNorm, this.config.rmsNormEps, head.inputDType), head);
  }
}
