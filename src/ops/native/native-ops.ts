// Ops over a backend of the addon: checks shapes, takes memory from the arena, and makes one native call for each op.

import { ShapeError } from '../../errors.ts';
import type { NativeBackend, RopeArgs, TensorArgs } from '../../native/native-backend.ts';
import type { Logprobs } from '../../sampling/logprobs.ts';
import type { Activation, GatedActivation, Xielu } from '../activation.ts';
import { attentionDTypeOf, type ComputeDType, type HalfDType, isHalf, type WeightFormat } from '../dtype.ts';
import { expectMix, expectOthers } from '../expected-streams.ts';
import { expectHeads } from '../expected-weights.ts';
import type { Expert, ExpertRange, Experts, Routing } from '../experts.ts';
import { headsOf, valuesFor } from '../kv-rows.ts';
import { checkEdits, checkIdLists, checkLogprobRows, checkMasks } from '../logit-checks.ts';
import type { Lora, LoraNumbers } from '../lora.ts';
import type {
  AttentionOptions,
  DeltaTokens,
  DeviceMemory,
  Gate,
  HeadPreparation,
  IdLists,
  KvCache,
  KvCacheShape,
  LogitEdits,
  Ops,
  Pending,
  RopeHeads,
  SampledTokens,
  SamplingRows,
  ScanTokens,
  Scope,
  StageLink,
  StepArrays,
  StepInputs,
  StepLoras,
  StreamMix,
  Tensor,
  TokenIds,
  TokenMasks,
  VocabularyRange,
} from '../ops.ts';
import type { RankPlace } from '../ranks.ts';
import type { Convolution, DeltaRule, SelectiveScan, StateArrays } from '../states.ts';
import type { GateUpWeight, LinearPart, LinearWeight, TensorSource, Vector } from '../weights.ts';
import { paddedBatchSize } from './batch-sizes.ts';
import { asOpsError } from './native-errors.ts';
import { NativeLora } from './native-lora.ts';
import { NativePackedWeights } from './native-packed-weights.ts';
import { NativePending, NativeSampledTokens } from './native-pending.ts';
import { NativeStageLink } from './native-stage-link.ts';
import { NativeStepInputs } from './native-step.ts';
import { Arena, expectTensor, type NativeTensor } from './native-tensor.ts';
import {
  type Loader,
  NativeExperts,
  NativeGateUp,
  NativeKvCache,
  NativeLinear,
  NativeVector,
} from './native-weights.ts';

/** One device that the addon has a backend for. */
export interface NativeDevice {
  readonly native: NativeBackend;
  readonly ranks: RankPlace;
  readonly backend: Ops['backend'];
  readonly description: string;
  readonly isa: string;
  /** Whether weights are packed for its kernels, and can be taken from a cache. */
  readonly packs: boolean;
  /** Whether the launches of decode steps are recorded, so that few batch sizes are better than many. */
  readonly recordsSteps: boolean;
  freeMemory(): number;
  deviceMemory(): DeviceMemory | null;
}

export class NativeOps implements Ops {
  readonly backend: Ops['backend'];
  readonly description: string;
  readonly isa: string;
  readonly half: HalfDType;
  readonly ranks: RankPlace;
  readonly freeMemory: () => number;
  readonly deviceMemory: () => DeviceMemory | null;
  readonly packedWeights: NativePackedWeights | null;
  /** Names of the weights in their order, also where nothing is kept. */
  readonly #loaded: NativePackedWeights;
  readonly #native: NativeBackend;
  readonly #arena: Arena;
  readonly #recordsSteps: boolean;
  #warned = '';

  constructor(device: NativeDevice) {
    const { native, backend, description, isa, packs, recordsSteps } = device;
    this.backend = backend;
    this.description = description;
    this.isa = isa;
    this.half = native.half();
    this.ranks = device.ranks;
    this.freeMemory = device.freeMemory;
    this.deviceMemory = device.deviceMemory;
    this.#loaded = new NativePackedWeights(native, `${backend} ${isa}`);
    this.packedWeights = packs ? this.#loaded : null;
    this.#native = native;
    this.#arena = new Arena(native);
    this.#recordsSteps = recordsSteps;
  }

  loadLinear(parts: readonly LinearPart[], format: WeightFormat, splitsK = false): LinearWeight {
    return NativeLinear.load(this.#loader, parts, format, splitsK);
  }

  loadGateUp(gate: LinearPart, up: LinearPart, format: WeightFormat): GateUpWeight {
    return NativeGateUp.load(this.#loader, gate, up, format);
  }

  loadVector(source: TensorSource): Vector {
    return NativeVector.load(this.#native, source);
  }

  makeVector(values: Float32Array): Vector {
    return new NativeVector(this.#native, this.#native.makeVector(values), values.length);
  }

  makeExperts(
    experts: readonly Expert[],
    routing: Routing,
    activation: GatedActivation,
    range: ExpertRange = { first: 0, total: experts.length },
  ): Experts {
    const own = experts.map((expert) => ({
      ...('gateUp' in expert
        ? { gateUp: this.#own('makeExperts', expert.gateUp, NativeGateUp) }
        : { up: this.#own('makeExperts', expert.up, NativeLinear) }),
      down: this.#own('makeExperts', expert.down, NativeLinear),
    }));
    const vector = (of?: Vector | null) => (of ? this.#own('makeExperts', of, NativeVector) : null);
    const vectors = { bias: vector(routing.bias), factors: vector(routing.factors) };
    return this.#guard(() => new NativeExperts(this.#native, own, vectors, routing, activation, range));
  }

  makeLora(numbers: LoraNumbers): Lora {
    return this.#guard(() => new NativeLora(this.#native, numbers));
  }

  makeKvCache(shape: KvCacheShape, isShared = false): KvCache {
    return this.#guard(() => new NativeKvCache(this.#native, shape, isShared));
  }

  shareKvMemory(cache: KvCache): bigint {
    const { index } = this.#own('shareKvMemory', cache, NativeKvCache);
    return this.#guard(() => this.#native.shareKvMemory(index));
  }

  get #loader(): Loader {
    return { native: this.#native, packed: this.#loaded, half: this.half };
  }

  get busySeconds(): number {
    return this.#native.busySeconds();
  }

  close(): void {
    this.#native.close();
  }

  paddedBatch(numSequences: number): number {
    return this.#recordsSteps ? paddedBatchSize(numSequences) : numSequences;
  }

  /** What is recorded of steps. */
  get recorded(): ReturnType<NativeBackend['graphs']> {
    return this.#native.graphs();
  }

  /** Keeps at most so many launches of steps. */
  limitRecorded(launches: number): void {
    this.#native.limitGraphs(launches);
  }

  takeWarning(): string | null {
    const { failure } = this.recorded;
    if (failure === this.#warned) return null;
    this.#warned = failure;
    return `no more CUDA graphs are made, steps are launched op by op: ${failure}`;
  }

  mark(): Pending<void> {
    return new NativePending(this.#native, this.#native.lastPosition(), () => {});
  }

  openScope(): Scope {
    return this.#arena.openScope();
  }

  scope<T>(body: () => T): T {
    const scope = this.openScope();
    try {
      return body();
    } finally {
      scope.close();
    }
  }

  embedding({ ids, sampled }: TokenIds, table: LinearWeight, range?: VocabularyRange): Tensor {
    const { index, n, k } = this.#own('embedding', table, NativeLinear);
    const { first, total } = range ?? { first: 0, total: n };
    const out = this.#arena.allocate(ids.length, k, 'f32');
    const tokens = this.#unread('embedding', sampled);
    this.#guard(() => this.#native.embedding(index, total, first, ids, tokens, ...argsOf(out)));
    return out;
  }

  rmsNorm(x: Tensor, weight: Vector, eps: number, dtype: ComputeDType, groups = 1): Tensor {
    const { index, length } = this.#own('rmsNorm', weight, NativeVector);
    const input = expectTensor('rmsNorm', 'x', x, { cols: length, dtype: 'f32' });
    const out = this.#arena.allocate(x.rows, x.cols, dtype);
    this.#guard(() =>
      this.#native.rmsNorm(isHalf(dtype), index, eps, groups, ...argsOf(input), ...argsOf(out)),
    );
    return out;
  }

  layerNorm(x: Tensor, weight: Vector, bias: Vector | null, eps: number, dtype: ComputeDType): Tensor {
    const { index, length } = this.#own('layerNorm', weight, NativeVector);
    const biasIndex = bias === null ? NO_VECTOR : this.#own('layerNorm', bias, NativeVector).index;
    const input = expectTensor('layerNorm', 'x', x, { cols: length, dtype: 'f32' });
    const out = this.#arena.allocate(x.rows, x.cols, dtype);
    this.#guard(() =>
      this.#native.layerNorm(isHalf(dtype), index, biasIndex, eps, ...argsOf(input), ...argsOf(out)),
    );
    return out;
  }

  layerNormInPlace(x: Tensor, weight: Vector, bias: Vector | null, eps: number): void {
    const { index, length } = this.#own('layerNormInPlace', weight, NativeVector);
    const biasIndex = bias === null ? NO_VECTOR : this.#own('layerNormInPlace', bias, NativeVector).index;
    const args = argsOf(expectTensor('layerNormInPlace', 'x', x, { cols: length, dtype: 'f32' }));
    this.#guard(() => this.#native.layerNorm(false, index, biasIndex, eps, ...args, ...args));
  }

  qkNorm(x: Tensor, weight: Vector, eps: number): void {
    const { index } = this.#own('qkNorm', weight, NativeVector);
    const input = expectTensor('qkNorm', 'x', x, { dtype: 'f32' });
    this.#guard(() => this.#native.qkNorm(index, eps, ...argsOf(input)));
  }

  headLayerNorm(x: Tensor, weight: Vector, headDim: number, eps: number): void {
    const { index, length } = this.#own('headLayerNorm', weight, NativeVector);
    const input = expectTensor('headLayerNorm', 'x', x, { cols: length, dtype: 'f32' });
    this.#guard(() => this.#native.headLayerNorm(index, headDim, eps, ...argsOf(input)));
  }

  linear(x: Tensor, weight: LinearWeight, loras?: StepLoras): Tensor {
    const { index, n, k, inputDType: dtype } = this.#own('linear', weight, NativeLinear);
    const input = this.#padded(expectTensor('linear', 'x', x, { cols: k, dtype }));
    const out = this.#arena.allocate(x.rows, n, 'f32');
    this.#multiply(index, input, out, false, loras);
    return out;
  }

  addLinear(residual: Tensor, x: Tensor, weight: LinearWeight, loras?: StepLoras): void {
    const { index, n, k, inputDType: dtype } = this.#own('addLinear', weight, NativeLinear);
    const input = this.#padded(expectTensor('addLinear', 'x', x, { cols: k, dtype }));
    const sum = expectTensor('addLinear', 'residual', residual, { rows: x.rows, cols: n, dtype: 'f32' });
    this.#multiply(index, input, sum, true, loras);
  }

  gateUp(x: Tensor, weight: GateUpWeight, activation: GatedActivation, loras?: StepLoras): Tensor {
    const { index, n, k, inputDType: dtype } = this.#own('gateUp', weight, NativeGateUp);
    const input = this.#padded(expectTensor('gateUp', 'x', x, { cols: k, dtype }));
    const out = this.#arena.allocate(x.rows, n, dtype);
    const tensors = [...argsOf(input), ...argsOf(out)] as const;
    this.#guard(() => {
      if (loras === undefined) return this.#native.gateUp(activation, index, ...tensors);
      const { id, adapters, indices } = this.#lorasOf(loras);
      return this.#native.gateUpLora(id, activation, index, adapters, indices, ...tensors);
    });
    return out;
  }

  #multiply(weight: number, x: NativeTensor, out: NativeTensor, add: boolean, loras?: StepLoras): void {
    const tensors = [...argsOf(x), ...argsOf(out)] as const;
    this.#guard(() => {
      if (loras === undefined) return this.#native.linear(weight, ...tensors, add);
      const { id, adapters, indices } = this.#lorasOf(loras);
      return this.#native.linearLora(id, weight, adapters, indices, ...tensors, add);
    });
  }

  #lorasOf({ step, loras }: StepLoras): { id: number; adapters: Int32Array; indices: Int32Array } {
    const { id } = this.#own('linear', step, NativeStepInputs);
    return {
      id,
      adapters: Int32Array.from(loras, ({ adapter }) => adapter),
      indices: Int32Array.from(loras, ({ lora }) => this.#own('linear', lora, NativeLora).index),
    };
  }

  activate(x: Tensor, activation: Activation, dtype: ComputeDType): Tensor {
    const input = expectTensor('activate', 'x', x, { dtype: 'f32' });
    const out = this.#arena.allocate(x.rows, x.cols, dtype);
    this.#guard(() => this.#native.activate(activation, isHalf(dtype), ...argsOf(input), ...argsOf(out)));
    return out;
  }

  xielu(x: Tensor, { positive, negative, linear, least }: Xielu, dtype: ComputeDType): Tensor {
    const input = expectTensor('xielu', 'x', x, { dtype: 'f32' });
    const out = this.#arena.allocate(x.rows, x.cols, dtype);
    const tensors = [...argsOf(input), ...argsOf(out)] as const;
    this.#guard(() => this.#native.xielu(positive, negative, linear, least, isHalf(dtype), ...tensors));
    return out;
  }

  gate(x: Tensor, gate: Tensor, opening: Gate, dtype: ComputeDType): Tensor {
    const { rows, cols } = x;
    const input = expectTensor('gate', 'x', x, {});
    const by = expectTensor('gate', 'gate', gate, { rows, cols, dtype: 'f32' });
    const out = this.#arena.allocate(rows, cols, dtype);
    const tensors = [...argsOf(input), ...argsOf(by), ...argsOf(out)] as const;
    this.#guard(() => this.#native.gate(opening, isHalf(x.dtype), isHalf(dtype), ...tensors));
    return out;
  }

  cast(x: Tensor, dtype: ComputeDType): Tensor {
    const input = expectTensor('cast', 'x', x, {});
    const out = this.#arena.allocate(x.rows, x.cols, dtype);
    const formats = [isHalf(x.dtype), isHalf(dtype)] as const;
    this.#guard(() => this.#native.cast(...formats, ...argsOf(input), ...argsOf(out)));
    return out;
  }

  addScaled(residual: Tensor, x: Tensor, factor: number): void {
    const input = expectTensor('addScaled', 'x', x, { dtype: 'f32' });
    const { rows, cols } = x;
    const sum = expectTensor('addScaled', 'residual', residual, { rows, cols, dtype: 'f32' });
    this.#guard(() => this.#native.addScaled(factor, ...argsOf(input), ...argsOf(sum)));
  }

  scale(x: Tensor, factor: number): void {
    const input = expectTensor('scale', 'x', x, { dtype: 'f32' });
    this.#guard(() => this.#native.scale(factor, ...argsOf(input)));
  }

  softcap(x: Tensor, cap: number): void {
    const input = expectTensor('softcap', 'x', x, { dtype: 'f32' });
    this.#guard(() => this.#native.softcap(cap, ...argsOf(input)));
  }

  clip(x: Tensor, least: number, most: number): void {
    const input = expectTensor('clip', 'x', x, { dtype: 'f32' });
    this.#guard(() => this.#native.clip(least, most, ...argsOf(input)));
  }

  scaleColumns(x: Tensor, factors: Vector, dtype: ComputeDType): Tensor {
    const { index, length } = this.#own('scaleColumns', factors, NativeVector);
    const input = expectTensor('scaleColumns', 'x', x, { cols: length, dtype: 'f32' });
    const out = this.#arena.allocate(x.rows, length, dtype);
    this.#guard(() => this.#native.scaleColumns(isHalf(dtype), index, ...argsOf(input), ...argsOf(out)));
    return out;
  }

  sparsify(x: Tensor, deviations: number): void {
    const input = expectTensor('sparsify', 'x', x, { dtype: 'f32' });
    this.#guard(() => this.#native.sparsify(deviations, ...argsOf(input)));
  }

  joinStreams(x: Tensor, others: Tensor, least: number): Tensor {
    const { rows, cols: width } = x;
    expectOthers(others, width, least);
    const first = expectTensor('joinStreams', 'x', x, { dtype: 'f32' });
    const rest = expectTensor('joinStreams', 'others', others, { rows, dtype: 'f32' });
    const out = this.#arena.allocate(rows, width + others.cols, 'f32');
    const tensors = [...argsOf(first), ...argsOf(rest), ...argsOf(out)] as const;
    this.#guard(() => this.#native.joinStreams(least, ...tensors));
    return out;
  }

  addMixed(residual: Tensor, x: Tensor, numbers: Tensor, mix: StreamMix): void {
    expectMix(residual, x, numbers, mix);
    const { rows } = x;
    const { index } = this.#own('addMixed', mix.coefficients, NativeVector);
    const input = expectTensor('addMixed', 'x', x, { dtype: 'f32' });
    const own = expectTensor('addMixed', 'numbers', numbers, { rows, dtype: 'f32' });
    const sum = expectTensor('addMixed', 'residual', residual, { rows, dtype: 'f32' });
    const tensors = [...argsOf(own), ...argsOf(input), ...argsOf(sum)] as const;
    this.#guard(() => this.#native.addMixed(index, mix.offset, mix.width, ...tensors));
  }

  headLinear(x: Tensor, weights: readonly LinearWeight[], keepsRest: boolean): Tensor {
    const own = weights.map((weight) => this.#own('headLinear', weight, NativeLinear));
    const { n, k, width } = expectHeads(x, weights);
    const input = expectTensor('headLinear', 'x', x, {});
    const out = this.#arena.allocate(x.rows, own.length * (n + (keepsRest ? width - k : 0)), 'f32');
    const indices = Int32Array.from(own, ({ index }) => index);
    const isOfHalves = isHalf(x.dtype);
    this.#guard(() =>
      this.#native.headLinear(indices, width, keepsRest, isOfHalves, ...argsOf(input), ...argsOf(out)),
    );
    return out;
  }

  experts(x: Tensor, logits: Tensor, experts: Experts): Tensor {
    const { index, total, n, k, inputDType: dtype } = this.#own('experts', experts, NativeExperts);
    const input = this.#padded(expectTensor('experts', 'x', x, { cols: k, dtype }));
    const scores = expectTensor('experts', 'logits', logits, { rows: x.rows, cols: total, dtype: 'f32' });
    const out = this.#arena.allocate(x.rows, n, 'f32');
    this.#guard(() => this.#native.experts(index, ...argsOf(scores), ...argsOf(input), ...argsOf(out)));
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

  beginStep(cache: KvCache, arrays: StepArrays): StepInputs {
    const { index } = this.#own('beginStep', cache, NativeKvCache);
    const { positions, slotMapping, batch } = arrays;
    const { sends = NO_INTEGERS, adapters = NO_INTEGERS, states = NO_STATES } = arrays;
    const { planePositions = NO_INTEGERS } = arrays;
    const { numSequences, queryStarts, contextLengths, blockTables, maxBlocks } = batch;
    const { bidirectional = NO_INTEGERS } = batch;
    const id = this.#guard(() =>
      this.#native.beginStep(
        index,
        positions,
        planePositions,
        slotMapping,
        numSequences,
        queryStarts,
        contextLengths,
        blockTables,
        maxBlocks,
        bidirectional,
        sends,
        adapters,
        states.sources,
        states.slots,
        states.saves,
        states.moves ?? NO_INTEGERS,
      ),
    );
    return new NativeStepInputs(this.#native, id, cache, arrays);
  }

  rope(x: Tensor, step: StepInputs, table: Vector, heads: RopeHeads): void {
    const { index } = this.#own('rope', table, NativeVector);
    const { id } = this.#own('rope', step, NativeStepInputs);
    const input = expectTensor('rope', 'x', x, { rows: step.numTokens, dtype: 'f32' });
    this.#guard(() => this.#native.rope(index, ...ropeArgs(heads), id, ...argsOf(input)));
  }

  storeKv(k: Tensor, v: Tensor | null, step: StepInputs, layer: number): void {
    const { id, numTokens, cache } = this.#own('storeKv', step, NativeStepInputs);
    const { kvHeads, headDim } = headsOf(cache.shape, layer);
    const expected = { rows: numTokens, cols: kvHeads * headDim, dtype: 'f32' } as const;
    const keys = expectTensor('storeKv', 'k', k, expected);
    const values = expectTensor('storeKv', 'v', valuesFor(cache.shape, k, v), expected);
    this.#guard(() => this.#native.storeKv(id, layer, ...argsOf(keys), ...argsOf(values)));
  }

  prepareHeads(q: Tensor, k: Tensor, v: Tensor, step: StepInputs, how: HeadPreparation): void {
    const { id, numTokens: rows, cache } = this.#own('prepareHeads', step, NativeStepInputs);
    const { layer, norms, rotation } = how;
    const { kvHeads, headDim: own } = headsOf(cache.shape, layer);
    const index = (vector?: Vector) =>
      vector === undefined ? NO_VECTOR : this.#own('prepareHeads', vector, NativeVector).index;
    const tables = [index(rotation?.queries), index(rotation?.keys)] as const;
    const rope = [...tables, ...ropeArgs(rotation?.heads ?? { headDim: own })] as const;
    const expected = { rows, cols: kvHeads * own, dtype: 'f32' } as const;
    const tensors = [
      ...argsOf(expectTensor('prepareHeads', 'q', q, { rows, dtype: 'f32' })),
      ...argsOf(expectTensor('prepareHeads', 'k', k, expected)),
      ...argsOf(expectTensor('prepareHeads', 'v', v, expected)),
    ] as const;
    this.#guard(() =>
      this.#native.prepareHeads(
        id,
        layer,
        index(norms?.query),
        index(norms?.key),
        norms?.eps ?? 0,
        ...rope,
        ...tensors,
      ),
    );
  }

  attention(q: Tensor, step: StepInputs, options: AttentionOptions): Tensor {
    const { layer, isBidirectional, scale, window, chunk, softcap, sinks } = options;
    const { id, numTokens, cache } = this.#own('attention', step, NativeStepInputs);
    const input = expectTensor('attention', 'q', q, { rows: numTokens, dtype: 'f32' });
    const sinksIndex = sinks ? this.#own('attention', sinks, NativeVector).index : NO_VECTOR;
    const sight = [layer, aheadOf(isBidirectional), scale, window ?? 0, chunk ?? 0] as const;
    const out = this.#arena.allocate(q.rows, q.cols, attentionDTypeOf(cache.shape.dtype, this.half));
    this.#guard(() =>
      this.#native.attention(id, ...sight, softcap ?? 0, sinksIndex, ...argsOf(input), ...argsOf(out)),
    );
    return out;
  }

  convolve(x: Tensor, step: StepInputs, how: Convolution): Tensor {
    const { layer, first, weight, bias, activation } = how;
    const { id, numTokens: rows } = this.#own('convolve', step, NativeStepInputs);
    const input = expectTensor('convolve', 'x', x, { rows, dtype: 'f32' });
    const { index } = this.#own('convolve', weight, NativeVector);
    const biasIndex = bias ? this.#own('convolve', bias, NativeVector).index : NO_VECTOR;
    const out = this.#arena.allocate(rows, x.cols, 'f32');
    const numbers = [layer, first, index, biasIndex, activation === 'silu'] as const;
    this.#guard(() => this.#native.convolve(id, ...numbers, ...argsOf(input), ...argsOf(out)));
    return out;
  }

  gatedDelta(tokens: DeltaTokens, step: StepInputs, rule: DeltaRule): Tensor {
    const { layer, first, keyHeads, keyDim, heads, valueDim, isTiled } = rule;
    const { id, numTokens: rows } = this.#own('gatedDelta', step, NativeStepInputs);
    const argsOfInput = (name: keyof DeltaTokens, cols: number) =>
      argsOf(expectTensor('gatedDelta', name, tokens[name], { rows, cols, dtype: 'f32' }));
    const inputs = [
      ...argsOfInput('q', keyHeads * keyDim),
      ...argsOfInput('k', keyHeads * keyDim),
      ...argsOfInput('v', heads * valueDim),
      ...argsOfInput('forgetting', heads),
      ...argsOfInput('writing', heads),
    ] as const;
    const rates = this.#own('gatedDelta', rule.rates, NativeVector).index;
    const rateBias = this.#own('gatedDelta', rule.rateBias, NativeVector).index;
    const out = this.#arena.allocate(rows, heads * valueDim, 'f32');
    const numbers = [layer, first, keyHeads, keyDim, heads, valueDim, isTiled, rates, rateBias] as const;
    this.#guard(() => this.#native.gatedDelta(id, ...numbers, ...inputs, ...argsOf(out)));
    return out;
  }

  selectiveScan(tokens: ScanTokens, step: StepInputs, scan: SelectiveScan): Tensor {
    const { layer, first, groups, stateDim, heads, headDim } = scan;
    const { id, numTokens: rows } = this.#own('selectiveScan', step, NativeStepInputs);
    const argsOfInput = (name: keyof ScanTokens, cols: number) =>
      argsOf(expectTensor('selectiveScan', name, tokens[name], { rows, cols, dtype: 'f32' }));
    const inputs = [
      ...argsOfInput('x', heads * headDim),
      ...argsOfInput('b', groups * stateDim),
      ...argsOfInput('c', groups * stateDim),
      ...argsOfInput('steps', heads),
    ] as const;
    const [rates, stepBias, skips] = [scan.rates, scan.stepBias, scan.skips].map(
      (vector) => this.#own('selectiveScan', vector, NativeVector).index,
    ) as [number, number, number];
    const out = this.#arena.allocate(rows, heads * headDim, 'f32');
    const numbers = [layer, first, groups, stateDim, heads, headDim, rates, stepBias, skips] as const;
    this.#guard(() => this.#native.selectiveScan(id, ...numbers, ...inputs, ...argsOf(out)));
    return out;
  }

  meanRows(x: Tensor, starts: Int32Array): Tensor {
    const input = expectTensor('meanRows', 'x', x, { dtype: 'f32' });
    if (starts.length === 0) throw new ShapeError('meanRows', 'starts, and their end', 'none');
    const out = this.#arena.allocate(starts.length - 1, x.cols, 'f32');
    this.#guard(() => this.#native.meanRows(starts, ...argsOf(input), ...argsOf(out)));
    return out;
  }

  gatherRows(x: Tensor, rows: Int32Array): Tensor {
    const input = expectTensor('gatherRows', 'x', x, {});
    const out = this.#arena.allocate(rows.length, x.cols, x.dtype);
    this.#guard(() => this.#native.gatherRows(isHalf(x.dtype), rows, ...argsOf(input), ...argsOf(out)));
    return out;
  }

  makeStageLink(capacity: number): StageLink {
    return new NativeStageLink(this.#native, this.#native.makeStageLink(capacity), capacity);
  }

  sendHidden(link: StageLink, x: Tensor): void {
    const input = expectTensor('sendHidden', 'x', x, { dtype: 'f32' });
    if (!(link instanceof NativeStageLink))
      throw new ShapeError('sendHidden', 'a link of a native backend', link.constructor.name);
    this.#guard(() => this.#native.sendHidden(...argsOf(input), link.link));
  }

  receiveHidden(link: StageLink, rows: number, cols: number): Tensor {
    const own = this.#own('receiveHidden', link, NativeStageLink);
    const out = this.#arena.allocate(rows, cols, 'f32');
    this.#guard(() => this.#native.receiveHidden(...argsOf(out), own.link));
    return out;
  }

  restrictLogits(logits: Tensor, allowed: IdLists): void {
    const input = expectTensor('restrictLogits', 'logits', logits, { dtype: 'f32' });
    checkIdLists('restrictLogits', logits, allowed);
    const { rows, starts, ids } = allowed;
    this.#guard(() => this.#native.restrictLogits(...argsOf(input), rows, starts, ids));
  }

  maskLogits(logits: Tensor, masks: TokenMasks): void {
    const input = expectTensor('maskLogits', 'logits', logits, { dtype: 'f32' });
    checkMasks(logits, masks);
    this.#guard(() => this.#native.maskLogits(...argsOf(input), masks.rows, masks.words));
  }

  editLogits(logits: Tensor, edits: LogitEdits): void {
    const input = expectTensor('editLogits', 'logits', logits, { dtype: 'f32' });
    checkEdits(logits, edits);
    const { rows, starts, ids, biases, counts, repetition, frequency, presence } = edits;
    this.#guard(() =>
      this.#native.editLogits(
        ...argsOf(input),
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
    const sampled = this.#unread('logprobs', tokens.sampled);
    checkLogprobRows(logits, rows, tokens.ids, sampled.length, numTop);
    const values = new Float32Array(rows.length);
    const ranks = new Int32Array(rows.length);
    const topIds = new Int32Array(rows.length * numTop);
    const topLogprobs = new Float32Array(rows.length * numTop);
    const ids = tokens.ids.slice();
    const position = this.#guard(() =>
      this.#native.logprobs(...argsOf(input), numTop, rows, ids, sampled, values, ranks, topIds, topLogprobs),
    );
    return new NativePending(this.#native, position, () => {
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
    const position = this.#guard(() =>
      this.#native.sample(...argsOf(input), temperature, topK, topP, minP, uniform, tokens),
    );
    return new NativeSampledTokens(this.#native, position, tokens);
  }

  sumRanks(x: Tensor): void {
    const input = expectTensor('sumRanks', 'x', x, { dtype: 'f32' });
    if (this.ranks.size > 1) this.#guard(() => this.#native.sumRanks(...argsOf(input)));
  }

  gatherColumns(x: Tensor, widths: readonly number[], isWanted = true): Tensor {
    const input = expectTensor('gatherColumns', 'x', x, {
      cols: ownWidth('gatherColumns', widths, this.ranks),
    });
    if (this.ranks.size === 1) return x;
    const cols = widths.reduce((sum, width) => sum + width, 0);
    const out = isWanted ? this.#arena.allocate(x.rows, cols, x.dtype) : input;
    this.#gather(input, widths, out, isWanted);
    return out;
  }

  shareColumns(x: Tensor, widths: readonly number[]): void {
    const own = ownWidth('shareColumns', widths, this.ranks);
    const cols = widths.reduce((sum, width) => sum + width, 0);
    const all = expectTensor('shareColumns', 'x', x, { cols });
    if (this.ranks.size === 1) return;
    const first = widths.slice(0, this.ranks.rank).reduce((sum, width) => sum + width, 0);
    this.#gather(all.view(first, own), widths, all, true);
  }

  #gather(x: NativeTensor, widths: readonly number[], out: NativeTensor, isWanted: boolean): void {
    const tensors = [...argsOf(x), ...argsOf(out)] as const;
    this.#guard(() =>
      this.#native.gatherColumns(isHalf(x.dtype), Int32Array.from(widths), isWanted, ...tensors),
    );
  }

  shareSampled(tokens: SampledTokens | null, count: number): SampledTokens {
    const { rank, size } = this.ranks;
    if ((tokens !== null) !== (rank === 0))
      throw new ShapeError('shareSampled', 'the tokens of rank 0, and of no other', `some of rank ${rank}`);
    const own = tokens === null ? new Int32Array(count) : this.#unread('shareSampled', tokens);
    if (own.length !== count) throw new ShapeError('shareSampled', `${count} tokens`, `${own.length}`);
    if (tokens !== null && size === 1) return tokens;
    const position = this.#guard(() => this.#native.shareSampled(own));
    return new NativeSampledTokens(this.#native, position, own);
  }

  read(x: Tensor): Float32Array {
    const input = expectTensor('read', 'x', x, {});
    const values = new Float32Array(x.rows * x.cols);
    this.#guard(() => this.#native.read(isHalf(x.dtype), ...argsOf(input), values));
    return values;
  }

  readLater(x: Tensor): Pending<Float32Array> {
    const input = expectTensor('readLater', 'x', x, {});
    const values = new Float32Array(x.rows * x.cols);
    const isOfHalves = isHalf(x.dtype);
    const position = this.#guard(() => this.#native.readLater(isOfHalves, ...argsOf(input), values));
    return new NativePending(this.#native, position, () => values);
  }

  tensor(values: Float32Array, rows: number, cols: number, dtype: ComputeDType): Tensor {
    if (values.length !== rows * cols)
      throw new ShapeError('tensor', `${rows} x ${cols} numbers`, `${values.length}`);
    const out = this.#arena.allocate(rows, cols, dtype);
    this.#guard(() => this.#native.write(isHalf(dtype), values, ...argsOf(out)));
    return out;
  }

  /** Rows of halves whose padding is zero: a view that does not end on a step of the kernels is copied. */
  #padded(x: NativeTensor): NativeTensor {
    if (x.dtype === 'f32' || !x.isView || x.cols % 32 === 0) return x;
    const copy = this.#arena.allocate(x.rows, x.cols, x.dtype);
    const rows = Int32Array.from({ length: x.rows }, (_, row) => row);
    this.#guard(() => this.#native.gatherRows(true, rows, ...argsOf(x), ...argsOf(copy)));
    return copy;
  }

  /** The array that ops called after `sampled` find filled. */
  #unread(op: string, sampled: SampledTokens | null): Int32Array {
    return sampled === null ? NO_INTEGERS : this.#own(op, sampled, NativeSampledTokens).unread;
  }

  /** `value` as what this very backend made. */
  #own<T extends { readonly native: NativeBackend }>(
    op: string,
    value: object,
    kind: abstract new (...args: never[]) => T,
  ): T {
    if (!(value instanceof kind) || value.native !== this.#native)
      throw new ShapeError(op, `a ${kind.name} of this backend`, value.constructor.name);
    return value;
  }

  #guard<T>(call: () => T): T {
    try {
      return call();
    } catch (error) {
      throw asOpsError(error);
    }
  }
}

/** The index that stands for no vector. */
const NO_VECTOR = -1;
const NO_INTEGERS = new Int32Array(0);
const NO_STATES: StateArrays = { sources: NO_INTEGERS, slots: NO_INTEGERS, saves: NO_INTEGERS };

/** The columns of this rank, of those of all. */
function ownWidth(op: string, widths: readonly number[], { rank, size }: RankPlace): number {
  if (widths.length !== size) throw new ShapeError(op, `widths of ${size} ranks`, `${widths.length}`);
  return widths[rank]!;
}

function ropeArgs(heads: RopeHeads): RopeArgs {
  const { headDim, first = 0, rotaryDim = headDim - first, isInterleaved = false, sections } = heads;
  const { lines, columns, alternate } = sections ?? { lines: 0, columns: 0, alternate: false };
  return [headDim, first, rotaryDim, isInterleaved, lines, columns, alternate];
}

function argsOf(x: NativeTensor): TensorArgs {
  return [x.offset, x.rows, x.cols, x.stride];
}

/** The number of who sees ahead: none, what the step names, all. */
function aheadOf(isBidirectional: boolean | undefined): number {
  if (isBidirectional === undefined) return 1;
  return isBidirectional ? 2 : 0;
}
