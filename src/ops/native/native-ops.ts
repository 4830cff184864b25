// The native CPU backend: checks shapes, finds memory in the arena, and makes one native call an op.

import { ShapeError } from '../../errors.ts';
import type { InstructionSet } from '../../native/instruction-sets.ts';
import { chooseInstructionSet, chooseThreads, type Native, type NativeBackend } from '../../native/native.ts';
import type { Logprobs } from '../../sampling/logprobs.ts';
import type { ComputeDType } from '../dtype.ts';
import { checkEdits, checkIdLists, checkLogprobRows } from '../logit-checks.ts';
import type {
  AttentionBatch,
  AttentionOptions,
  GatedWeight,
  IdLists,
  KvCache,
  KvCacheShape,
  KvFeed,
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
import { asShapeError } from './native-errors.ts';
import { NativePending, NativeSampledTokens } from './native-pending.ts';
import { Arena, expectTensor, type NativeTensor } from './native-tensor.ts';
import { NativeGated, NativeKvCache, NativeLinear, NativeVector } from './native-weights.ts';

export class NativeOps implements Ops {
  readonly backend = 'cpu';
  readonly description: string;
  readonly kernels: InstructionSet;
  private readonly native: NativeBackend;
  private readonly arena: Arena;

  /**
   * @param options `threads` null is one a physical core; `isa` left out is SVC_CPU_ISA, else the best.
   * @throws ConfigError for an instruction set that this processor lacks, or a wrong number of threads.
   */
  constructor(native: Native, options: { readonly threads: number | null; readonly isa?: InstructionSet }) {
    const isa = chooseInstructionSet(native, options.isa ?? process.env.SVC_CPU_ISA);
    const threads = chooseThreads(native, options.threads);
    this.native = new native.Backend(isa, threads);
    this.arena = new Arena(this.native);
    this.kernels = isa;
    this.description = `${isa}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
  }

  loadLinear(parts: readonly LinearPart[], dtype: ComputeDType): LinearWeight {
    return new NativeLinear(this.native, parts, dtype);
  }

  loadGated(gate: LinearPart, up: LinearPart, dtype: ComputeDType): GatedWeight {
    return new NativeGated(this.native, gate, up, dtype);
  }

  loadVector(source: TensorSource): Vector {
    return NativeVector.load(this.native, source);
  }

  makeVector(values: Float32Array): Vector {
    return new NativeVector(this.native, this.native.makeVector(values), values.length);
  }

  makeKvCache(shape: KvCacheShape, isShared = false): KvCache {
    return this.guard(() => new NativeKvCache(this.native, shape, isShared));
  }

  openFeed(cache: KvCache): KvFeed {
    const { native } = this;
    const token = this.guard(() => native.openFeed(this.own('openFeed', cache, NativeKvCache).index));
    return {
      token,
      step: (sends) => native.feedStep(sends),
      layer: (layer) => native.feedLayer(layer),
    };
  }

  get busySeconds(): number {
    return this.native.busySeconds();
  }

  close(): void {
    this.native.close();
  }

  mark(): Pending<void> {
    return new NativePending(this.native, this.native.lastPlace(), () => {});
  }

  openScope(): Scope {
    return this.arena.openScope();
  }

  scope<T>(body: () => T): T {
    const scope = this.openScope();
    try {
      return body();
    } finally {
      scope.close();
    }
  }

  embedding({ ids, sampled }: TokenIds, table: LinearWeight): Tensor {
    const { index, k } = this.own('embedding', table, NativeLinear);
    const out = this.arena.allocate(ids.length, k, 'f32');
    this.guard(() => this.native.embedding(index, ids, this.unread('embedding', sampled), ...place(out)));
    return out;
  }

  rmsNorm(x: Tensor, weight: Vector, eps: number, dtype: ComputeDType): Tensor {
    const { index, length } = this.own('rmsNorm', weight, NativeVector);
    const input = expectTensor('rmsNorm', 'x', x, { cols: length, dtype: 'f32' });
    const out = this.arena.allocate(x.rows, x.cols, dtype);
    this.guard(() => this.native.rmsNorm(dtype === 'bf16', index, eps, ...place(input), ...place(out)));
    return out;
  }

  rmsNormHeads(x: Tensor, weight: Vector, eps: number): void {
    const { index } = this.own('rmsNormHeads', weight, NativeVector);
    const input = expectTensor('rmsNormHeads', 'x', x, { dtype: 'f32' });
    this.guard(() => this.native.rmsNormHeads(index, eps, ...place(input)));
  }

  linear(x: Tensor, weight: LinearWeight): Tensor {
    const { index, n, k, dtype } = this.own('linear', weight, NativeLinear);
    const input = this.padded(expectTensor('linear', 'x', x, { cols: k, dtype }));
    const out = this.arena.allocate(x.rows, n, 'f32');
    this.guard(() => this.native.linear(index, ...place(input), ...place(out), false));
    return out;
  }

  addLinear(residual: Tensor, x: Tensor, weight: LinearWeight): void {
    const { index, n, k, dtype } = this.own('addLinear', weight, NativeLinear);
    const input = this.padded(expectTensor('addLinear', 'x', x, { cols: k, dtype }));
    const sum = expectTensor('addLinear', 'residual', residual, { rows: x.rows, cols: n, dtype: 'f32' });
    this.guard(() => this.native.linear(index, ...place(input), ...place(sum), true));
  }

  gatedLinear(x: Tensor, weight: GatedWeight): Tensor {
    const { index, n, k, dtype } = this.own('gatedLinear', weight, NativeGated);
    const input = this.padded(expectTensor('gatedLinear', 'x', x, { cols: k, dtype }));
    const out = this.arena.allocate(x.rows, n, dtype);
    this.guard(() => this.native.gatedLinear(index, ...place(input), ...place(out)));
    return out;
  }

  split(x: Tensor, widths: readonly number[]): Tensor[] {
    const cols = widths.reduce((sum, width) => sum + width, 0);
    const whole = expectTensor('split', 'x', x, { cols });
    let first = 0;
    return widths.map((width) => {
      const view = whole.view(first, width);
      first += width;
      return view;
    });
  }

  rope(x: Tensor, positions: Int32Array, table: Vector, headDim: number, rotaryDim = headDim): void {
    const { index } = this.own('rope', table, NativeVector);
    const input = expectTensor('rope', 'x', x, { rows: positions.length, dtype: 'f32' });
    this.guard(() => this.native.rope(index, headDim, rotaryDim, positions, ...place(input)));
  }

  storeKv(k: Tensor, v: Tensor, cache: KvCache, layer: number, slotMapping: Int32Array): void {
    const { index, shape } = this.own('storeKv', cache, NativeKvCache);
    const cols = shape.kvHeads * shape.headDim;
    const expected = { rows: slotMapping.length, cols, dtype: 'f32' } as const;
    const keys = expectTensor('storeKv', 'k', k, expected);
    const values = expectTensor('storeKv', 'v', v, expected);
    this.guard(() => this.native.storeKv(index, layer, slotMapping, ...place(keys), ...place(values)));
  }

  attention(q: Tensor, cache: KvCache, batch: AttentionBatch, options: AttentionOptions): Tensor {
    const { index, shape } = this.own('attention', cache, NativeKvCache);
    const input = expectTensor('attention', 'q', q, { dtype: 'f32' });
    const out = this.arena.allocate(q.rows, q.cols, shape.dtype);
    const { numSequences, queryStarts, contextLengths, blockTables, maxBlocks } = batch;
    this.guard(() =>
      this.native.attention(
        index,
        options.layer,
        options.scale,
        options.window ?? 0,
        numSequences,
        queryStarts,
        contextLengths,
        blockTables,
        maxBlocks,
        ...place(input),
        ...place(out),
      ),
    );
    return out;
  }

  gatherRows(x: Tensor, rows: Int32Array): Tensor {
    const input = expectTensor('gatherRows', 'x', x, {});
    const out = this.arena.allocate(rows.length, x.cols, x.dtype);
    this.guard(() => this.native.gatherRows(x.dtype === 'bf16', rows, ...place(input), ...place(out)));
    return out;
  }

  restrictLogits(logits: Tensor, allowed: IdLists): void {
    const input = expectTensor('restrictLogits', 'logits', logits, { dtype: 'f32' });
    checkIdLists('restrictLogits', logits, allowed);
    const { rows, starts, ids } = allowed;
    this.guard(() => this.native.restrictLogits(...place(input), rows, starts, ids));
  }

  editLogits(logits: Tensor, edits: LogitEdits): void {
    const input = expectTensor('editLogits', 'logits', logits, { dtype: 'f32' });
    checkEdits(logits, edits);
    const { rows, starts, ids, biases, counts, repetition, frequency, presence } = edits;
    this.guard(() =>
      this.native.editLogits(
        ...place(input),
        rows,
        starts,
        ids,
        biases,
        counts,
        repetition,
        frequency,
        presence,
      ),
    );
  }

  logprobs(logits: Tensor, rows: Int32Array, tokens: TokenIds, numTop: number): Pending<Logprobs> {
    const input = expectTensor('logprobs', 'logits', logits, { dtype: 'f32' });
    const sampled = this.unread('logprobs', tokens.sampled);
    checkLogprobRows(logits, rows, tokens.ids, sampled.length, numTop);
    const values = new Float32Array(rows.length);
    const ranks = new Int32Array(rows.length);
    const topIds = new Int32Array(rows.length * numTop);
    const topLogprobs = new Float32Array(rows.length * numTop);
    const ids = tokens.ids.slice();
    const streamPlace = this.guard(() =>
      this.native.logprobs(...place(input), numTop, rows, ids, sampled, values, ranks, topIds, topLogprobs),
    );
    return new NativePending(this.native, streamPlace, () => {
      const tokenIds = ids.map((id) => (id < 0 ? sampled[-1 - id]! : id));
      return { tokenIds, logprobs: values, ranks, numTop, topIds, topLogprobs };
    });
  }

  sample(logits: Tensor, rows: SamplingRows): SampledTokens {
    const input = expectTensor('sample', 'logits', logits, { dtype: 'f32' });
    for (const [name, values] of Object.entries(rows)) {
      if (values.length !== logits.rows)
        throw new ShapeError('sample', `${name} [${logits.rows}]`, `[${values.length}]`);
    }
    const { temperature, topK, topP, minP, uniform } = rows;
    const tokens = new Int32Array(logits.rows);
    const streamPlace = this.guard(() =>
      this.native.sample(...place(input), temperature, topK, topP, minP, uniform, tokens),
    );
    return new NativeSampledTokens(this.native, streamPlace, tokens);
  }

  read(x: Tensor): Float32Array {
    const input = expectTensor('read', 'x', x, {});
    const values = new Float32Array(x.rows * x.cols);
    this.guard(() => this.native.read(x.dtype === 'bf16', ...place(input), values));
    return values;
  }

  tensor(values: Float32Array, rows: number, cols: number, dtype: ComputeDType): Tensor {
    if (values.length !== rows * cols)
      throw new ShapeError('tensor', `${rows} x ${cols} numbers`, `${values.length}`);
    const out = this.arena.allocate(rows, cols, dtype);
    this.guard(() => this.native.write(dtype === 'bf16', values, ...place(out)));
    return out;
  }

  /** bf16 rows whose padding is zero: a view that does not end on a step of the kernels is copied. */
  private padded(x: NativeTensor): NativeTensor {
    if (x.dtype === 'f32' || !x.isView || x.cols % 32 === 0) return x;
    const copy = this.arena.allocate(x.rows, x.cols, x.dtype);
    const rows = Int32Array.from({ length: x.rows }, (_, row) => row);
    this.guard(() => this.native.gatherRows(true, rows, ...place(x), ...place(copy)));
    return copy;
  }

  /** The array that ops behind `sampled` find filled. */
  private unread(op: string, sampled: SampledTokens | null): Int32Array {
    return sampled === null ? NO_TOKENS : this.own(op, sampled, NativeSampledTokens).unread;
  }

  /** `value` as what this very backend made. */
  private own<T extends { readonly native: NativeBackend }>(
    op: string,
    value: object,
    kind: abstract new (...args: never[]) => T,
  ): T {
    if (!(value instanceof kind) || value.native !== this.native)
      throw new ShapeError(op, `a ${kind.name} of this backend`, value.constructor.name);
    return value;
  }

  private guard<T>(call: () => T): T {
    try {
      return call();
    } catch (error) {
      throw asShapeError(error);
    }
  }
}

const NO_TOKENS = new Int32Array(0);

type Place = [offset: number, rows: number, cols: number, stride: number];

function place(x: NativeTensor): Place {
  return [x.offset, x.rows, x.cols, x.stride];
}
