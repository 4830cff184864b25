// The reference backend: plain TypeScript that defines what each op means. Every other backend is tested against
// it, and it serves where no native addon could be built. Ops run when they are called.

import { ConfigError, ShapeError } from '../../errors.ts';
import type { Logprobs } from '../../sampling/logprobs.ts';
import type { Activation, GatedActivation, Xielu } from '../activation.ts';
import type { ComputeDType, HalfDType, WeightFormat } from '../dtype.ts';
import { expectVector } from '../expected-weights.ts';
import type { Expert, ExpertRange, Experts, Routing } from '../experts.ts';
import { freeHostMemory } from '../host-memory.ts';
import type { Lora, LoraNumbers } from '../lora.ts';
import type {
  AttentionOptions,
  DeltaTokens,
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
import { NO_TOKEN } from '../ops.ts';
import { ALONE } from '../ranks.ts';
import { readTensor } from '../read-tensor.ts';
import type { Convolution, DeltaRule, SelectiveScan } from '../states.ts';
import type { GateUpWeight, LinearPart, LinearWeight, TensorSource, Vector } from '../weights.ts';
import { attention } from './attention.ts';
import { convolve } from './convolve.ts';
import {
  activate,
  addScaled,
  cast,
  clip,
  gate,
  scale,
  scaleColumns,
  softcap,
  sparsify,
  xielu,
} from './elementwise.ts';
import { embedding } from './embedding.ts';
import { experts, RefExperts } from './experts.ts';
import { gatedDelta } from './gated-delta.ts';
import { RefKvCache } from './kv-cache.ts';
import { addLinear, gateUp, headLinear, linear, RefGateUp, RefLinear } from './linear.ts';
import { editLogits, logprobs, maskLogits, restrictLogits } from './logits.ts';
import { RefLora } from './lora.ts';
import { meanRows } from './mean-rows.ts';
import { headLayerNorm, layerNorm, layerNormInPlace, qkNorm, rmsNorm } from './norm.ts';
import { expectTensor, RefTensor, roundToDType } from './ref-tensor.ts';
import { rope } from './rope.ts';
import { sample } from './sample.ts';
import { selectiveScan } from './selective-scan.ts';
import { linkOf, RefStageLink } from './stage-link.ts';
import { RefStepInputs } from './step-inputs.ts';
import { storeKv } from './store-kv.ts';
import { addMixed, joinStreams } from './streams.ts';
import { RefVector } from './vector.ts';

export class ReferenceOps implements Ops {
  readonly half: HalfDType;
  readonly packedWeights = null;
  readonly backend = 'reference';
  readonly description = 'plain TypeScript, 1 thread';
  readonly isa = 'reference';
  readonly ranks = ALONE;
  readonly busySeconds = null;
  /** Tensors of the open scopes, the innermost last. */
  readonly #scopes: RefTensor[][] = [];
  #step: RefStepInputs | null = null;

  constructor(half: HalfDType = 'bf16') {
    this.half = half;
  }

  loadLinear(parts: readonly LinearPart[], format: WeightFormat): LinearWeight {
    return new RefLinear(parts, format, this.half);
  }

  loadGateUp(gate: LinearPart, up: LinearPart, format: WeightFormat): GateUpWeight {
    return new RefGateUp(gate, up, format, this.half);
  }

  loadVector(source: TensorSource): Vector {
    expectVector(source);
    return new RefVector(readTensor(source, 'f32'));
  }

  makeVector(values: Float32Array): Vector {
    return new RefVector(values.slice());
  }

  makeExperts(
    experts: readonly Expert[],
    routing: Routing,
    activation: GatedActivation,
    range: ExpertRange = { first: 0, total: experts.length },
  ): Experts {
    return new RefExperts(experts, routing, activation, range);
  }

  makeLora(numbers: LoraNumbers): Lora {
    return new RefLora(numbers);
  }

  makeKvCache(shape: KvCacheShape): KvCache {
    return new RefKvCache(shape, this.half);
  }

  shareKvMemory(): never {
    throw new ConfigError(
      'KV transfer needs the native backend: install make and g++, run `npm run build`, and leave --device auto or cpu',
      { param: 'kv-transfer-config' },
    );
  }

  freeMemory(): number {
    return freeHostMemory();
  }

  deviceMemory(): null {
    return null;
  }

  /** All memory is JavaScript's own and goes with its last reference. */
  close(): void {}

  paddedBatch(numSequences: number): number {
    return numSequences;
  }

  takeWarning(): null {
    return null;
  }

  openScope(): Scope {
    const tensors: RefTensor[] = [];
    this.#scopes.push(tensors);
    const close = (): void => {
      const depth = this.#scopes.indexOf(tensors);
      if (depth < 0) return;
      for (const tensor of this.#scopes.splice(depth).flat()) tensor.free();
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

  #keep<T extends RefTensor>(tensor: T): T {
    this.#scopes.at(-1)?.push(tensor);
    return tensor;
  }

  mark(): Pending<void> {
    return { read: () => {} };
  }

  embedding(
    tokens: TokenIds,
    table: LinearWeight,
    range: VocabularyRange = { first: 0, total: table.n },
  ): Tensor {
    return this.#keep(embedding(knownIds(tokens), table, range));
  }

  rmsNorm(x: Tensor, weight: Vector, eps: number, dtype: ComputeDType, groups = 1): Tensor {
    return this.#keep(rmsNorm(x, weight, eps, dtype, groups));
  }

  layerNorm(x: Tensor, weight: Vector, bias: Vector | null, eps: number, dtype: ComputeDType): Tensor {
    return this.#keep(layerNorm(x, weight, bias, eps, dtype));
  }

  layerNormInPlace(x: Tensor, weight: Vector, bias: Vector | null, eps: number): void {
    layerNormInPlace(x, weight, bias, eps);
  }

  qkNorm(x: Tensor, weight: Vector, eps: number): void {
    qkNorm(x, weight, eps);
  }

  headLayerNorm(x: Tensor, weight: Vector, headDim: number, eps: number): void {
    headLayerNorm(x, weight, headDim, eps);
  }

  linear(x: Tensor, weight: LinearWeight, loras?: StepLoras): Tensor {
    return this.#keep(linear(x, weight, loras));
  }

  addLinear(residual: Tensor, x: Tensor, weight: LinearWeight, loras?: StepLoras): void {
    addLinear(residual, x, weight, loras);
  }

  gateUp(x: Tensor, weight: GateUpWeight, activation: GatedActivation, loras?: StepLoras): Tensor {
    return this.#keep(gateUp(x, weight, activation, loras));
  }

  activate(x: Tensor, activation: Activation, dtype: ComputeDType): Tensor {
    return this.#keep(activate(x, activation, dtype));
  }

  xielu(x: Tensor, factors: Xielu, dtype: ComputeDType): Tensor {
    return this.#keep(xielu(x, factors, dtype));
  }

  gate(x: Tensor, by: Tensor, opening: Gate, dtype: ComputeDType): Tensor {
    return this.#keep(gate(x, by, opening, dtype));
  }

  cast(x: Tensor, dtype: ComputeDType): Tensor {
    return this.#keep(cast(x, dtype));
  }

  addScaled(residual: Tensor, x: Tensor, factor: number): void {
    addScaled(residual, x, factor);
  }

  scale(x: Tensor, factor: number): void {
    scale(x, factor);
  }

  softcap(x: Tensor, cap: number): void {
    softcap(x, cap);
  }

  clip(x: Tensor, least: number, most: number): void {
    clip(x, least, most);
  }

  scaleColumns(x: Tensor, factors: Vector, dtype: ComputeDType): Tensor {
    return this.#keep(scaleColumns(x, factors, dtype));
  }

  sparsify(x: Tensor, deviations: number): void {
    sparsify(x, deviations);
  }

  joinStreams(x: Tensor, others: Tensor, least: number): Tensor {
    return this.#keep(joinStreams(x, others, least));
  }

  addMixed(residual: Tensor, x: Tensor, numbers: Tensor, mix: StreamMix): void {
    addMixed(residual, x, numbers, mix);
  }

  headLinear(x: Tensor, weights: readonly LinearWeight[], keepsRest: boolean): Tensor {
    return this.#keep(headLinear(x, weights, keepsRest));
  }

  experts(x: Tensor, logits: Tensor, mixture: Experts): Tensor {
    return this.#keep(experts(x, logits, mixture));
  }

  split(x: Tensor, widths: readonly number[]): Tensor[] {
    const cols = widths.reduce((sum, width) => sum + width, 0);
    const whole = expectTensor('split', 'x', x, { cols });
    let offset = whole.offset;
    return widths.map((width) => {
      const layout = { offset, stride: whole.stride };
      offset += width;
      return this.#keep(new RefTensor(whole.data, x.rows, width, x.dtype, layout));
    });
  }

  beginStep(cache: KvCache, arrays: StepArrays): StepInputs {
    this.#step = new RefStepInputs(cache, arrays);
    return this.#step;
  }

  rope(x: Tensor, step: StepInputs, table: Vector, heads: RopeHeads): void {
    rope(x, this.#current('rope', step), table, heads);
  }

  storeKv(k: Tensor, v: Tensor | null, step: StepInputs, layer: number): void {
    storeKv(k, v, this.#current('storeKv', step), layer);
  }

  prepareHeads(q: Tensor, k: Tensor, v: Tensor, step: StepInputs, how: HeadPreparation): void {
    const { layer, norms, rotation } = how;
    if (norms !== undefined) {
      qkNorm(q, norms.query, norms.eps);
      qkNorm(k, norms.key, norms.eps);
    }
    if (rotation !== undefined) {
      this.rope(q, step, rotation.queries, rotation.heads);
      this.rope(k, step, rotation.keys, rotation.heads);
    }
    this.storeKv(k, v, step, layer);
  }

  attention(q: Tensor, step: StepInputs, options: AttentionOptions): Tensor {
    return this.#keep(attention(q, this.#current('attention', step), options));
  }

  convolve(x: Tensor, step: StepInputs, how: Convolution): Tensor {
    return this.#keep(convolve(x, this.#current('convolve', step), how));
  }

  gatedDelta(tokens: DeltaTokens, step: StepInputs, rule: DeltaRule): Tensor {
    return this.#keep(gatedDelta(tokens, this.#current('gatedDelta', step), rule));
  }

  selectiveScan(tokens: ScanTokens, step: StepInputs, scan: SelectiveScan): Tensor {
    return this.#keep(selectiveScan(tokens, this.#current('selectiveScan', step), scan));
  }

  #current(op: string, step: StepInputs): RefStepInputs {
    if (this.#step === null || step !== this.#step)
      throw new ShapeError(op, 'the step that was begun last', 'another');
    return this.#step;
  }

  meanRows(x: Tensor, starts: Int32Array): Tensor {
    return this.#keep(meanRows(x, starts));
  }

  gatherRows(x: Tensor, rows: Int32Array): Tensor {
    const input = expectTensor('gatherRows', 'x', x, {});
    const out = RefTensor.zeros(rows.length, x.cols, x.dtype);
    for (const [to, from] of rows.entries()) {
      if (from < 0 || from >= x.rows)
        throw new ShapeError('gatherRows', `rows from 0 to ${x.rows - 1}`, `${from}`);
      out.data.set(input.row(from), to * x.cols);
    }
    return this.#keep(out);
  }

  makeStageLink(capacity: number): StageLink {
    return new RefStageLink(capacity);
  }

  sendHidden(link: StageLink, x: Tensor): void {
    linkOf('sendHidden', link).send(expectTensor('sendHidden', 'x', x, { dtype: 'f32' }));
  }

  receiveHidden(link: StageLink, rows: number, cols: number): Tensor {
    return this.#keep(linkOf('receiveHidden', link).receive(rows, cols));
  }

  restrictLogits(logits: Tensor, allowed: IdLists): void {
    restrictLogits(logits, allowed);
  }

  maskLogits(logits: Tensor, masks: TokenMasks): void {
    maskLogits(logits, masks);
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

  // It is alone: what it has is what all have.

  sumRanks(): void {}

  gatherColumns(x: Tensor): Tensor {
    return x;
  }

  shareColumns(): void {}

  shareSampled(tokens: SampledTokens): SampledTokens {
    return tokens;
  }

  read(x: Tensor): Float32Array {
    const input = expectTensor('read', 'x', x, {});
    const values = new Float32Array(x.rows * x.cols);
    for (let row = 0; row < x.rows; row++) values.set(input.row(row), row * x.cols);
    return values;
  }

  readLater(x: Tensor): Pending<Float32Array> {
    const values = this.read(x);
    return { read: () => values };
  }

  tensor(values: Float32Array, rows: number, cols: number, dtype: ComputeDType): Tensor {
    if (values.length !== rows * cols)
      throw new ShapeError('tensor', `${rows} x ${cols} numbers`, `${values.length}`);
    return this.#keep(roundToDType(new RefTensor(values.slice(), rows, cols, dtype)));
  }
}

/** Replaces negative ids by the sampled tokens that they refer to; without one the id stays negative. */
function knownIds({ ids, sampled }: TokenIds): Int32Array {
  const tokens = sampled?.read().map((token) => (token === NO_TOKEN ? 0 : token));
  return ids.map((id) => (id < 0 ? (tokens?.[-1 - id] ?? id) : id));
}
