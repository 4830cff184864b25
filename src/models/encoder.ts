// A model whose tokens see the whole sequence: embeddings of words, positions and kinds of texts, layers, and what is made of
// the rows that are asked for.

import type { ComputeDType, KvDType } from '../ops/dtype.ts';
import type { KvCache, KvCacheShape, Ops, Tensor } from '../ops/ops.ts';
import type { LinearWeight } from '../ops/weights.ts';
import type { LoadContext } from './architecture.ts';
import { kvCacheShape } from './decoder.ts';
import type { Layer, LayerContext, LoadLayer } from './layers/layer.ts';
import { layerNormInPlace } from './layers/norm.ts';
import type { Step } from './layers/step.ts';
import type { ForwardInputs, Model } from './model.ts';
import type { ModelConfig } from './model-config.ts';

/** Of a classifier: output(tanh(dense(row))). */
interface EncoderHead {
  readonly dense: LinearWeight;
  readonly output: LinearWeight;
}

/** @param root the names of the model's tensors, but not those of its head, begin with it. */
export type LoadEncoderHead = (context: LoadContext, root: string) => EncoderHead;

/** What the architectures make an encoder from. */
interface EncoderDesign {
  readonly layer: LoadLayer;
  readonly head: LoadEncoderHead;
}

/** Loads an encoder, in the order in which a step uses it. */
export async function loadEncoder(context: LoadContext, design: EncoderDesign): Promise<Model> {
  const { config, weights, names, progress } = context;
  const { vocabSize, hiddenSize, numLayers, pooling } = config;
  const { positionOffset, numPositions, numTokenTypes } = config.encoder!;
  const done = (steps: number, what: string) => progress(steps / (numLayers + 2), what);
  const layerContext: LayerContext = { config, weights, ropeTables: new Map() };
  const root = names.layers.slice(0, -config.tensorNames.layers.length);
  const embedding = weights.embedding({ name: names.embedding, n: vocabSize }, hiddenSize);
  const within = { rows: positionOffset + numPositions, first: positionOffset };
  const positions = weights.embedding({ name: names.positions!, n: numPositions, within }, hiddenSize);
  const types = { name: `${root}embeddings.token_type_embeddings`, n: numTokenTypes };
  const tokenTypes = numTokenTypes > 0 ? weights.embedding(types, hiddenSize) : null;
  const norm = layerNormInPlace(layerContext, names.finalNorm);
  await done(1, 'embeddings');
  const layers: Layer[] = [];
  for (let layer = 0; layer < numLayers; layer++) {
    layers.push(design.layer(layerContext, layer, `${names.layers}.${layer}`));
    await done(layer + 2, `layer ${layer + 1} of ${numLayers}`);
  }
  const head = pooling?.task === 'score' ? design.head(context, root) : null;
  await done(numLayers + 2, 'output');
  return new Encoder(context, { embedding, positions, tokenTypes, norm, layers, head });
}

interface EncoderParts {
  /** [vocab, hidden] */
  readonly embedding: LinearWeight;
  /** [max positions, hidden] */
  readonly positions: LinearWeight;
  /** [kinds, hidden]; null where there are none. */
  readonly tokenTypes: LinearWeight | null;
  /** Of the sum of the three. */
  readonly norm: Layer;
  readonly layers: readonly Layer[];
  /** Null where the rows themselves are wanted. */
  readonly head: EncoderHead | null;
}

class Encoder implements Model {
  readonly config: ModelConfig;
  readonly dtype: ComputeDType;
  readonly kvDType: KvDType;
  readonly weightFormat: string;
  readonly weightBytes: number;
  readonly loraTargets = [];
  readonly #ops: Ops;
  readonly #parts: EncoderParts;

  constructor({ config, ops, weights, kvDType }: LoadContext, parts: EncoderParts) {
    this.config = config;
    this.dtype = weights.dtype;
    this.kvDType = kvDType;
    this.weightFormat = weights.formatName;
    this.weightBytes = weights.packedBytes;
    this.#ops = ops;
    this.#parts = parts;
  }

  kvCacheShape(blocks: number, blockSize: number): KvCacheShape {
    return kvCacheShape(this.config, this.kvDType, blocks, blockSize);
  }

  forward(inputs: ForwardInputs, cache: KvCache): Tensor {
    const ops = this.#ops;
    const step: Step = { ops, inputs: ops.beginStep(cache, inputs) };
    const x = this.#embed(inputs);
    this.#parts.norm(x, step);
    for (const [index, layer] of this.#parts.layers.entries()) {
      ops.scope(() => layer(x, step));
      inputs.onLayer?.(index);
    }
    return x;
  }

  logits(hidden: Tensor, rows: Int32Array): Tensor {
    const ops = this.#ops;
    const { head } = this.#parts;
    const wanted = ops.gatherRows(hidden, rows);
    if (head === null) return wanted;
    const { dense, output } = head;
    const pooled = ops.linear(this.#inputOf(dense, wanted), dense);
    // A cap of 1 is the tangent alone.
    ops.softcap(pooled, 1);
    return ops.linear(this.#inputOf(output, pooled), output);
  }

  #embed({ tokens, positions, tokenTypes }: ForwardInputs): Tensor {
    const ops = this.#ops;
    const parts = this.#parts;
    const x = ops.embedding(tokens, parts.embedding);
    const add = (ids: Int32Array, table: LinearWeight): void =>
      ops.scope(() => ops.addScaled(x, ops.embedding({ ids, sampled: null }, table), 1));
    if (parts.tokenTypes !== null) {
      const isOne = parts.tokenTypes.n === 1 || tokenTypes === undefined;
      add(isOne ? new Int32Array(positions.length) : tokenTypes, parts.tokenTypes);
    }
    add(positions, parts.positions);
    return x;
  }

  #inputOf({ inputDType }: LinearWeight, x: Tensor): Tensor {
    return inputDType === 'f32' ? x : this.#ops.cast(x, inputDType);
  }
}
