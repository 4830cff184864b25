// The reference backend: plain TypeScript that defines what each op means. Every other backend is tested against
// it, and it serves where no native addon could be built. Ops run when they are called.

import { ConfigError, ShapeError } from '../../errors.ts';
import type { Logprobs } from '../../sampling/logprobs.ts';
import type { ComputeDType } from '../dtype.ts';
import type {
  AttentionBatch,
  AttentionOptions,
  GatedWeight,
  IdLists,
  KvCache,
  KvCacheShape,
  LinearPart,
  LinearWeight,
  LogitEdits,
  Ops,
  Pending,
  SampledTokens,
  SamplingRows,
  Scope,
  Tensor,
  TensorSource,
  TokenIds,
  Vector,
} from '../ops.ts';
import { NO_TOKEN } from '../ops.ts';
import { attention } from './attention.ts';
import { embedding } from './embedding.ts';
import { expectTensor, HostTensor, settle } from './host-tensor.ts';
import { HostKvCache, storeKv } from './kv-cache.ts';
import { addLinear, gatedLinear, HostGated, HostLinear, linear } from './linear.ts';
import { editLogits, logprobs, restrictLogits } from './logits.ts';
import { rmsNorm, rmsNormHeads } from './norm.ts';
import { readWeight } from './read-weight.ts';
import { rope } from './rope.ts';
import { sample } from './sample.ts';
import { HostVector } from './vector.ts';

export class ReferenceOps implements Ops {
  readonly backend = 'reference';
  readonly description = 'plain TypeScript, 1 thread';
  readonly kernels = 'reference';
  readonly busySeconds = null;
  /** Tensors of the open scopes, the innermost last. */
  private readonly scopes: HostTensor[][] = [];

  loadLinear(parts: readonly LinearPart[], dtype: ComputeDType): LinearWeight {
    return new HostLinear(parts, dtype);
  }

  loadGated(gate: LinearPart, up: LinearPart, dtype: ComputeDType): GatedWeight {
    return new HostGated(gate, up, dtype);
  }

  loadVector(source: TensorSource): Vector {
    return new HostVector(readWeight(source, 'f32'));
  }

  makeVector(values: Float32Array): Vector {
    return new HostVector(values.slice());
  }

  makeKvCache(shape: KvCacheShape): KvCache {
    return new HostKvCache(shape);
  }

  openFeed(): never {
    throw new ConfigError(
      'KV transfer needs the native backend: install make and g++, run `npm run build`, and leave --device auto or cpu',
      { param: 'kv-transfer-config' },
    );
  }

  /** All memory is JavaScript's own and goes with its last reference. */
  close(): void {}

  openScope(): Scope {
    const tensors: HostTensor[] = [];
    this.scopes.push(tensors);
    const close = (): void => {
      const depth = this.scopes.indexOf(tensors);
      if (depth < 0) return;
      for (const tensor of this.scopes.splice(depth).flat()) tensor.free();
    };
    return { close };
  }

  scope<T>(body: () => T): T {
    const scope = this.openScope();
    try {
      return body();
    } finally {
      scope.close();
    }
  }

  private keep<T extends HostTensor>(tensor: T): T {
    this.scopes.at(-1)?.push(tensor);
    return tensor;
  }

  mark(): Pending<void> {
    return { read: () => {} };
  }

  embedding(tokens: TokenIds, table: LinearWeight): Tensor {
    return this.keep(embedding(knownIds(tokens), table));
  }

  rmsNorm(x: Tensor, weight: Vector, eps: number, dtype: ComputeDType): Tensor {
    return this.keep(rmsNorm(x, weight, eps, dtype));
  }

  rmsNormHeads(x: Tensor, weight: Vector, eps: number): void {
    rmsNormHeads(x, weight, eps);
  }

  linear(x: Tensor, weight: LinearWeight): Tensor {
    return this.keep(linear(x, weight));
  }

  addLinear(residual: Tensor, x: Tensor, weight: LinearWeight): void {
    addLinear(residual, x, weight);
  }

  gatedLinear(x: Tensor, weight: GatedWeight): Tensor {
    return this.keep(gatedLinear(x, weight));
  }

  split(x: Tensor, widths: readonly number[]): Tensor[] {
    const cols = widths.reduce((sum, width) => sum + width, 0);
    const whole = expectTensor('split', 'x', x, { cols });
    let offset = whole.offset;
    return widths.map((width) => {
      const place = { offset, stride: whole.stride };
      offset += width;
      return this.keep(new HostTensor(whole.data, x.rows, width, x.dtype, place));
    });
  }

  rope(x: Tensor, positions: Int32Array, table: Vector, headDim: number, rotaryDim = headDim): void {
    rope(x, positions, table, headDim, rotaryDim);
  }

  storeKv(k: Tensor, v: Tensor, cache: KvCache, layer: number, slotMapping: Int32Array): void {
    storeKv(k, v, cache, layer, slotMapping);
  }

  attention(q: Tensor, cache: KvCache, batch: AttentionBatch, options: AttentionOptions): Tensor {
    return this.keep(attention(q, cache, batch, options));
  }

  gatherRows(x: Tensor, rows: Int32Array): Tensor {
    const input = expectTensor('gatherRows', 'x', x, {});
    const out = HostTensor.zeros(rows.length, x.cols, x.dtype);
    for (const [to, from] of rows.entries()) {
      if (from < 0 || from >= x.rows)
        throw new ShapeError('gatherRows', `rows from 0 to ${x.rows - 1}`, `${from}`);
      out.data.set(input.row(from), to * x.cols);
    }
    return this.keep(out);
  }

  restrictLogits(logits: Tensor, allowed: IdLists): void {
    restrictLogits(logits, allowed);
  }

  editLogits(logits: Tensor, edits: LogitEdits): void {
    editLogits(logits, edits);
  }

  logprobs(logits: Tensor, rows: Int32Array, tokens: TokenIds, numTop: number): Pending<Logprobs> {
    const result = logprobs(logits, rows, knownIds(tokens), numTop);
    return { read: () => result };
  }

  sample(logits: Tensor, rows: SamplingRows): SampledTokens {
    const tokens = sample(logits, rows);
    return { read: () => tokens };
  }

  read(x: Tensor): Float32Array {
    const input = expectTensor('read', 'x', x, {});
    const values = new Float32Array(x.rows * x.cols);
    for (let row = 0; row < x.rows; row++) values.set(input.row(row), row * x.cols);
    return values;
  }

  tensor(values: Float32Array, rows: number, cols: number, dtype: ComputeDType): Tensor {
    if (values.length !== rows * cols)
      throw new ShapeError('tensor', `${rows} x ${cols} numbers`, `${values.length}`);
    return this.keep(settle(new HostTensor(values.slice(), rows, cols, dtype)));
  }
}

/** Sampled tokens in the place of the ids that stand for them; an id that stands for none stays negative. */
function knownIds({ ids, sampled }: TokenIds): Int32Array {
  const tokens = sampled?.read().map((token) => (token === NO_TOKEN ? 0 : token));
  return ids.map((id) => (id < 0 ? (tokens?.[-1 - id] ?? id) : id));
}
