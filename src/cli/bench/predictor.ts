// A model by itself, without engine and scheduler: the logits after each token of a text.

import type { EngineConfig } from '../../config/engine-config.ts';
import { loadModel, preferredHalf } from '../../models/load-model.ts';
import type { Model } from '../../models/model.ts';
import { readModelConfig } from '../../models/registry.ts';
import { openModelSource } from '../../models/source/model-source.ts';
import { type KvCache, NO_SLOT, type Ops } from '../../ops/ops.ts';
import { selectOps } from '../../ops/select.ts';

const BLOCK_SIZE = 16;
/** Rows whose logits are in memory at once: a vocabulary has up to some hundred thousand numbers. */
const ROWS_AT_ONCE = 64;

export class Predictor {
  readonly model: Model;
  readonly #ops: Ops;
  readonly #cache: KvCache;
  readonly #numBlocks: number;

  private constructor(model: Model, ops: Ops, numBlocks: number) {
    this.model = model;
    this.#ops = ops;
    this.#numBlocks = numBlocks;
    this.#cache = ops.makeKvCache(
      model.kvCacheShape({ blocks: numBlocks, blockSize: BLOCK_SIZE, sequences: 1 }),
    );
  }

  /** @param maxTokens longest text that `predict` will be given. */
  static async load(
    config: EngineConfig,
    maxTokens: number,
    onProgress: (fraction: number, what: string) => void,
  ): Promise<Predictor> {
    const source = openModelSource(config.modelPath);
    const half = preferredHalf(readModelConfig(source), config);
    const { ops } = selectOps({ ...config, half });
    const { dtype, quantization, kvCacheDtype } = config;
    const options = { dtype, quantization, kvCacheDtype, maxModelLen: null, onProgress };
    try {
      const model = await loadModel(source, ops, options);
      return new Predictor(model, ops, Math.ceil(maxTokens / BLOCK_SIZE));
    } catch (error) {
      ops.close();
      throw error;
    }
  }

  /** Calls `use` with the logits [vocab] after each token; they are valid during the call. */
  predict(tokens: readonly number[], use: (position: number, logits: Float32Array) => void): void {
    const { model } = this;
    const { vocabSize } = model.config;
    const positions = upTo(tokens.length);
    const inputs = {
      states: { sources: Int32Array.of(NO_SLOT), slots: Int32Array.of(0), saves: new Int32Array(0) },
      tokens: { ids: Int32Array.from(tokens), sampled: null },
      positions,
      slotMapping: positions,
      batch: {
        numSequences: 1,
        queryStarts: Int32Array.of(0, tokens.length),
        contextLengths: Int32Array.of(tokens.length),
        blockTables: upTo(this.#numBlocks),
        maxBlocks: this.#numBlocks,
      },
    };
    this.#ops.scope(() => {
      const hidden = model.forward(inputs, this.#cache);
      for (let first = 0; first < tokens.length; first += ROWS_AT_ONCE) {
        const rows = positions.slice(first, first + ROWS_AT_ONCE);
        const logits = this.#ops.scope(() => this.#ops.read(model.logits(hidden, rows)));
        for (const [i, row] of rows.entries()) use(row, logits.subarray(i * vocabSize, (i + 1) * vocabSize));
      }
    });
  }

  close(): void {
    this.#ops.close();
  }
}

function upTo(count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => i);
}
