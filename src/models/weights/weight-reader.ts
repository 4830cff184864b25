// Loads weights by their published names into the backend: the one way from checkpoint to ops for every model.

import { ModelLoadError } from '../../errors.ts';
import { CHANNELS } from '../../images/pixels.ts';
import type { Activation, GatedActivation } from '../../ops/activation.ts';
import { decodeCodes } from '../../ops/decode-codes.ts';
import { type ComputeDType, formatName, type WeightFormat } from '../../ops/dtype.ts';
import type { Expert, Experts, Routing } from '../../ops/experts.ts';
import { roundTo } from '../../ops/float-formats.ts';
import type { Ops } from '../../ops/ops.ts';
import { readTensor } from '../../ops/read-tensor.ts';
import {
  type GateUpWeight,
  type LinearPart,
  type LinearWeight,
  type LinearWeightSource,
  narrow,
  narrowOutputs,
  reshape,
  storedPart,
  type TensorSource,
  type Vector,
  wholeTensor,
} from '../../ops/weights.ts';
import { LoraTarget, type TargetPiece } from '../adapters/lora-target.ts';
import {
  ColumnParallelLinear,
  ColumnParallelLinears,
  GateUpLinear,
  RowParallelLinear,
} from '../layers/linear.ts';
import type { PublishedQuantization } from '../quantization/published-quantization.ts';
import { RankShare } from '../rank-share.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import {
  type ExpertParts,
  type FusedNames,
  fusedExpert,
  type StackedShape,
  stackedExpert,
} from './stacked-experts.ts';
import { WidenedBlocks } from './widened-blocks.ts';

/** A projection `name.weight` [n, k] and, if `bias`, `name.bias` [n]. */
export interface Projection {
  readonly name: string;
  readonly n: number;
  readonly bias?: boolean;
  /** Where several projections are published as one: its rows, and the first of them that is this one's. */
  readonly within?: { readonly rows: number; readonly first: number };
  /** Whether the weight is published as [k, n]. */
  readonly isTransposed?: boolean;
  /** Rows, one range after the other, of which ranks share each by itself; left out, all are one range. Null: each rank has all. */
  readonly shared?: readonly number[] | null;
}

/** The rows of a table of learned positions, behind `offset` others; each rank has all. */
export function positionRows(name: string, count: number, offset = 0): Projection {
  return { name, n: count, within: { rows: offset + count, first: offset }, shared: null };
}

/** Channels, one range after the other, of which ranks share each by itself. */
export interface ChannelRanges {
  readonly shared: readonly number[];
  /** So many more, behind them, that every rank has. */
  readonly whole?: number;
}

/** The projections of an expert. */
export interface ExpertNames {
  /** Null: there is no gate. */
  readonly gate: string | null;
  readonly up: string;
  readonly down: string;
}

/** Shapes of the products of latent attention. */
interface LatentHeads {
  readonly numHeads: number;
  /** Numbers of the latent, and of a key and a value that are made of it. */
  readonly rank: number;
  readonly keyDim: number;
  readonly valueDim: number;
}

/** What a model computes in, and what plain weights are brought to. */
interface WeightFormats {
  readonly dtype: ComputeDType;
  readonly products: WeightFormat;
  /** Of the output head, which may be the embeddings as well. */
  readonly head: WeightFormat;
  /** How the checkpoint is quantised; null where it is not. */
  readonly published: PublishedQuantization | null;
}

export class WeightReader {
  readonly dtype: ComputeDType;
  /** What of the model is loaded here. */
  readonly share: RankShare;
  readonly #products: WeightFormat;
  readonly #head: WeightFormat;
  readonly #published: PublishedQuantization | null;
  readonly #checkpoint: Checkpoint;
  readonly #ops: Ops;
  readonly #formats = new Set<string>();
  readonly #widened = new WidenedBlocks();
  /** The products so far that adapters may add to. */
  readonly loraTargets: LoraTarget[] = [];
  #packedBytes = 0;

  constructor(checkpoint: Checkpoint, ops: Ops, { dtype, products, head, published }: WeightFormats) {
    this.#checkpoint = checkpoint;
    this.#ops = ops;
    this.share = new RankShare(ops.ranks);
    this.dtype = dtype;
    this.#products = products;
    this.#head = head;
    this.#published = published;
  }

  /** Whether products are brought to one format, whatever they are published in: no other than int8 gains by it. */
  get #requantizes(): boolean {
    return this.#products === 'int8';
  }

  /** Those of the layers' products, joined by + where there are several. */
  get formatName(): string {
    return [...this.#formats].sort().join('+');
  }

  /** Packed bytes of all matrices so far but of embeddings: what one decode step reads. */
  get packedBytes(): number {
    return this.#packedBytes;
  }

  /** What a person should know of blocks that are kept as numbers; null where there are none. */
  get widenedBlocks(): string | null {
    return this.#widened.note;
  }

  column(projection: Projection, k: number): ColumnParallelLinear {
    const own = this.#ownRows(projection);
    return this.#column(own, this.#parts(own, k), k);
  }

  /** Projections of one input: one product, but where blocks of several formats cannot be packed side by side. */
  columns(projections: readonly Projection[], k: number): ColumnParallelLinears {
    const own = projections.flatMap((projection) => this.#ownRows(projection));
    const parts = this.#parts(own, k);
    const starts = this.#requantizes ? [0] : startsOfFormats(parts);
    const products = starts.map((first, run) => {
      const end = starts[run + 1];
      return this.#column(own.slice(first, end), parts.slice(first, end), k);
    });
    return new ColumnParallelLinears(products);
  }

  /** @param hasWholeInput whether every rank has all columns of the input */
  row(projection: Projection, k: number, hasWholeInput = false): RowParallelLinear {
    const [own] = this.#ownRows(projection);
    const weight = this.#rowParallel(this.#part(own!, k));
    const inputs = hasWholeInput ? null : this.share.widths(k);
    const widths = { inputs, outputs: this.share.widths(projection.n) };
    return new RowParallelLinear(weight, this.#target([own!], k), widths);
  }

  gateUp(gate: Projection, up: Projection, k: number, activation: Activation): GateUpLinear {
    const own = [gate, up].flatMap((projection) => this.#ownRows(projection));
    const [first, second] = this.#parts(own, k);
    return new GateUpLinear(this.#gateUp(first!, second!), activation, this.#target(own, k, true));
  }

  /** Routers of mixtures, and gates of heads, stay in the format to compute in: they decide, and are small. */
  unquantizedColumn(projections: readonly Projection[], k: number): ColumnParallelLinear {
    const stored = this.#parts(
      projections.flatMap((projection) => this.#ownRows(projection)),
      k,
    );
    const parts = hasMixedBlocks(stored) ? stored.map((part) => this.#widened.widen(part)) : stored;
    return new ColumnParallelLinear(
      this.#count(this.#ops.loadLinear(parts, this.#formatOf(parts, this.dtype))),
    );
  }

  /** Rows of a projection, by themselves and in the format to compute in: small products that decide. */
  rows({ n: rows, ...all }: Projection, wanted: readonly number[], k: number): LinearWeight {
    const parts = wanted.map((first) => this.#own({ ...all, n: 1, within: { rows, first } }, k));
    return this.#ops.loadLinear(parts, this.#formatOf(parts, this.dtype));
  }

  /** A product with a bias, in the format to compute in: those after the layers are small, and decide. */
  classifier(name: string, n: number, k: number, bias: boolean): LinearWeight {
    const parts = [this.#own({ name, n, bias }, k)];
    return this.#ops.loadLinear(parts, this.#formatOf(parts, this.dtype));
  }

  /** The same without a bias, published as [k, n] under `name` itself. */
  transposedClassifier(name: string, n: number, k: number): LinearWeight {
    const tensor = this.#checkpoint.find(name, [k, n]);
    const weight = { kind: 'transposed', shape: [n, k], tensor } as const;
    return this.#ops.loadLinear([{ weight, bias: null }], this.dtype);
  }

  /** What makes rows [patches, n] of patches of an image, published as a convolution over them. */
  patches(name: string, n: number, patch: readonly number[], bias: boolean): LinearWeight {
    const k = patch.reduce((product, size) => product * size, 1);
    const weight = reshape(this.#checkpoint.find(`${name}.weight`, [n, ...patch]), [n, k]);
    const part = storedPart(weight, this.#bias({ name, n, bias }));
    return this.#ops.loadLinear([part], this.dtype);
  }

  /**
   * The same, published as a product over patches [size, size, 3], of each pixel its red, its green and its blue, of which some converters
   * make a convolution.
   */
  pixelPatches(name: string, n: number, size: number, bias: boolean): LinearWeight {
    if (this.#checkpoint.shapeOf(`${name}.weight`)?.length === 4)
      return this.patches(name, n, [CHANNELS, size, size], bias);
    const stored = this.#checkpoint.find(`${name}.weight`, [n, size ** 2 * CHANNELS]);
    const numbers = coloursApart(readTensor(stored, 'f32'), size ** 2);
    return this.#ops.loadLinear(
      [storedPart({ ...stored, numbers }, this.#bias({ name, n, bias }))],
      this.dtype,
    );
  }

  /** An MLP as an expert of a mixture: gate, where there is one, and up [inner, hidden], down [hidden, inner]. */
  expert({ gate, up, down }: ExpertNames, hidden: number, inner: number, bias = false): ExpertParts {
    return {
      gate: gate === null ? null : this.#part({ name: gate, n: inner, bias }, hidden),
      up: this.#part({ name: up, n: inner, bias }, hidden),
      down: this.#part({ name: down, n: hidden, bias }, inner),
    };
  }

  /** Expert `index` of those that GPT-OSS publishes as one tensor, under names that begin with `prefix`. */
  stackedExpert(prefix: string, shape: StackedShape, index: number): ExpertParts {
    return stackedExpert(this.#checkpoint, prefix, shape, index);
  }

  /** The same of other architectures, whose gates are before what they let through. */
  fusedExpert(names: FusedNames, shape: StackedShape, index: number): ExpertParts {
    return fusedExpert(this.#checkpoint, names, shape, index);
  }

  /** Whether all experts of a layer are published in such tensors. */
  hasFusedExperts({ gateUp }: FusedNames): boolean {
    return this.#checkpoint.has(gateUp);
  }

  /** Whether the checkpoint has the vector `name`. */
  hasVector(name: string): boolean {
    return this.#checkpoint.has(name);
  }

  /** Whether the checkpoint has `name.weight`. */
  has(name: string): boolean {
    return this.#checkpoint.has(`${name}.weight`);
  }

  /** Whether a release has left `name.weight` out. */
  lacks(name: string): boolean {
    return this.#checkpoint.lacks(`${name}.weight`);
  }

  /**
   * Loads the experts that are this rank's.
   * @param isShared whether ranks share them; else each has all.
   */
  mixture(
    parts: readonly ExpertParts[],
    routing: Routing,
    activation: GatedActivation,
    isShared = true,
  ): Experts {
    const total = parts.length;
    const { first, count } = isShared ? this.share.experts(total) : { first: 0, count: total };
    const experts = parts.slice(first, first + count).map((part) => this.#expert(part));
    return this.#ops.makeExperts(experts, routing, activation, { first, total });
  }

  /**
   * Of each head, the transpose of what makes keys of the latent [rank, keyDim], and what makes values of it [valueDim, rank].
   * They stay in the format to compute in.
   */
  latentHeads(name: string, shape: LatentHeads) {
    const { numHeads, rank, keyDim, valueDim } = shape;
    const load = (weight: LinearWeightSource): LinearWeight =>
      this.#count(this.#ops.loadLinear([{ weight, bias: null }], this.dtype));
    if (this.has(`${name}.0.key`)) return this.#convertedLatentHeads(name, shape, load);
    const rows = keyDim + valueDim;
    const all = this.#floats({ name, n: numHeads * rows }, rank);
    const own = this.share.of(numHeads);
    const heads = Array.from({ length: own.count }, (_, head) => (own.first + head) * rows);
    return {
      keyWeights: heads.map((first) =>
        load({ kind: 'transposed', shape: [rank, keyDim], tensor: narrow(all, 0, first, keyDim) }),
      ),
      valueWeights: heads.map((first) =>
        load({ kind: 'plain', tensor: narrow(all, 0, first + keyDim, valueDim) }),
      ),
    };
  }

  /** The same where a converter has taken them apart. */
  #convertedLatentHeads(
    name: string,
    { numHeads, rank, keyDim, valueDim }: LatentHeads,
    load: (weight: LinearWeightSource) => LinearWeight,
  ) {
    const { first, count } = this.share.of(numHeads);
    const loadAll = (kind: string, shape: readonly number[]): LinearWeight[] => {
      const heads = Array.from({ length: numHeads }, (_, head) =>
        this.#checkpoint.find(`${name}.${head}.${kind}.weight`, shape),
      );
      return heads.slice(first, first + count).map((tensor) => load({ kind: 'plain', tensor }));
    };
    return { keyWeights: loadAll('key', [rank, keyDim]), valueWeights: loadAll('value', [valueDim, rank]) };
  }

  /** @param offset added to each number: some weights are published as what they differ from 1. */
  vector(name: string, length: number, offset = 0): Vector {
    const source = this.#checkpoint.find(name, [length]);
    const missing = offset - this.#checkpoint.addedTo(name);
    if (missing === 0) return this.#ops.loadVector(source);
    return this.#ops.makeVector(readTensor(source, 'f32').map((value) => value + missing));
  }

  /** A vector of which each number is multiplied. */
  scaledVector(name: string, length: number, factor: number): Vector {
    const numbers = readTensor(this.#checkpoint.find(name, [length]), 'f32');
    return this.#ops.makeVector(numbers.map((value) => value * factor));
  }

  /** All numbers of a tensor, in their order. */
  numbers(name: string, shape: readonly number[]): Float32Array {
    const length = shape.reduce((product, size) => product * size, 1);
    return readTensor(reshape(this.#checkpoint.find(name, shape), [length]), 'f32');
  }

  /** One number, which is a factor of something. */
  number(name: string): number {
    return readTensor(this.#checkpoint.findNumber(name), 'f32')[0]!;
  }

  /** A vector that is published as a matrix of one row. */
  rowVector(name: string, length: number): Vector {
    return this.wholeVector(name, [1, length]);
  }

  /** All numbers of a tensor, in their order. */
  wholeVector(name: string, shape: readonly number[]): Vector {
    const length = shape.reduce((product, size) => product * size, 1);
    return this.#ops.loadVector(reshape(this.#checkpoint.find(name, shape), [length]));
  }

  /** A row [headDim] of each head of this rank, one after the other. */
  headVectors(name: string, numHeads: number, headDim: number): Vector {
    const all = reshape(this.#checkpoint.find(name, [numHeads, headDim]), [numHeads * headDim]);
    const { first, count } = this.share.of(numHeads);
    return this.#ops.loadVector(narrow(all, 0, first * headDim, count * headDim));
  }

  /** The same where each head has a tensor [headDim] of its own: `name.0.weight` and so on. */
  vectorOfEachHead(name: string, numHeads: number, headDim: number): Vector {
    const { first, count } = this.share.of(numHeads);
    const heads = Array.from({ length: numHeads }, (_, head) =>
      this.#checkpoint.find(`${name}.${head}.weight`, [headDim]),
    );
    const own = heads.slice(first, first + count).flatMap((head) => [...readTensor(head, 'f32')]);
    return this.#ops.makeVector(Float32Array.from(own));
  }

  /**
   * Of as many numbers, as of heads or channels, those of this rank.
   * @param of what is made of each
   */
  ownNumbers(name: string, length: number, of?: (published: number) => number): Vector {
    const { first, count } = this.share.of(length);
    const source = narrow(this.#checkpoint.find(name, [length]), 0, first, count);
    return of ? this.#ops.makeVector(readTensor(source, 'f32').map(of)) : this.#ops.loadVector(source);
  }

  /** The weights [channels, 1, taps] of a convolution over time -> [taps, channels] of this rank. */
  taps(name: string, channels: ChannelRanges, taps: number): Vector {
    const total = countChannels(channels);
    const own = this.#ofChannels(
      reshape(this.#checkpoint.find(name, [total, 1, taps]), [total, taps]),
      channels,
    );
    const numOwn = own.length / taps;
    const turned = new Float32Array(own.length);
    for (const [i, weight] of own.entries()) turned[(i % taps) * numOwn + Math.floor(i / taps)] = weight;
    return this.#ops.makeVector(turned);
  }

  /** A number [channels] of each channel -> of those of this rank. */
  channelNumbers(name: string, channels: ChannelRanges): Vector {
    const all = this.#checkpoint.find(name, [countChannels(channels)]);
    return this.#ops.makeVector(Float32Array.from(this.#ofChannels(all, channels)));
  }

  /** The rows of a tensor [channels, ...] that are this rank's. */
  #ofChannels(all: TensorSource, { shared, whole = 0 }: ChannelRanges): number[] {
    const own = shared.map((length, index) => {
      const { first, count } = this.share.of(length);
      return { first: sum(shared.slice(0, index)) + first, count };
    });
    const ranges = whole === 0 ? own : [...own, { first: sum(shared), count: whole }];
    return ranges.flatMap(({ first, count }) => [...readTensor(narrow(all, 0, first, count), 'f32')]);
  }

  /** As many times the same number. */
  constant(length: number, value: number): Vector {
    return this.#ops.makeVector(new Float32Array(length).fill(value));
  }

  /** [vocab, hidden], of which a step reads no more than a row a token. */
  embedding(table: Projection, hidden: number): LinearWeight {
    const parts = this.#ownRows(table).map((own) => this.#own(own, hidden));
    return this.#ops.loadLinear(parts, this.#formatOf(parts, this.dtype));
  }

  /** [vocab, hidden], which a step reads whole; it may be the embeddings as well. */
  head(projection: Projection, hidden: number): LinearWeight {
    const parts = this.#parts(this.#ownRows(projection), hidden);
    const format = this.#requantizes ? this.#head : this.#formatOf(parts, this.#head);
    return this.#count(this.#ops.loadLinear(parts, format));
  }

  /** The rows of a projection that are this rank's, of each range that ranks share by itself. */
  #ownRows(projection: Projection): Projection[] {
    const { n, within, shared = [n] } = projection;
    if (this.share.isAlone || shared === null) return [projection];
    const rows = within?.rows ?? n;
    let begin = within?.first ?? 0;
    return shared.map((length) => {
      const own = this.share.of(length);
      const first = begin + own.first;
      begin += length;
      return { ...projection, n: own.count, within: { rows, first } };
    });
  }

  #parts(projections: readonly Projection[], k: number): LinearPart[] {
    return projections.map((projection) => this.#part(projection, k));
  }

  #column(projections: readonly Projection[], parts: readonly LinearPart[], k: number): ColumnParallelLinear {
    return new ColumnParallelLinear(this.#linear(parts), this.#target(projections, k));
  }

  #target(projections: readonly Projection[], k: number, isGateUp = false): LoraTarget {
    const pieces = projections.map(({ name: module, n, within }): TargetPiece => {
      return { module, rows: within?.rows ?? n, first: within?.first ?? 0, n };
    });
    const target = new LoraTarget(this.#ops, pieces, k, isGateUp);
    this.loraTargets.push(target);
    return target;
  }

  #expert({ gate, up, down }: ExpertParts): Expert {
    const first = gate === null ? { up: this.#linear([up]) } : { gateUp: this.#gateUp(gate, up) };
    return { ...first, down: this.#rowParallel(down) };
  }

  #gateUp(gate: LinearPart, up: LinearPart): GateUpWeight {
    const parts = [gate, up];
    const isMixed = !this.#requantizes && hasMixedBlocks(parts);
    const [first, second] = isMixed ? parts.map((part) => this.#widened.widen(part)) : parts;
    return this.#count(this.#ops.loadGateUp(first!, second!, this.#formatOfLayer([first!, second!])));
  }

  #linear(parts: readonly LinearPart[]): LinearWeight {
    return this.#count(this.#ops.loadLinear(parts, this.#formatOfLayer(parts)));
  }

  #rowParallel(part: LinearPart): LinearWeight {
    const format = this.#formatOfLayer([part]);
    // Few columns and long sums.
    return this.#count(this.#ops.loadLinear([part], format, true));
  }

  /** What parts of one product of a layer are kept in. */
  #formatOfLayer(parts: readonly LinearPart[]): WeightFormat {
    const format = this.#requantizes ? this.#products : this.#formatOf(parts, this.#products);
    this.#formats.add(formatName(format));
    return format;
  }

  #part(projection: Projection, k: number): LinearPart {
    const { name, n, within, isTransposed } = projection;
    const weight = this.#published?.find(this.#checkpoint, { name, n: within?.rows ?? n, k }) ?? null;
    if (weight === null || weight.kind === 'plain' || weight.kind === 'transposed') {
      return this.#own(projection, k);
    }
    // Methods that keep codes input by input do so whatever way the floats were.
    const isInOrder = !isTransposed || (weight.kind === 'codes' && weight.order !== 'rows');
    const own = !isInOrder ? null : within ? narrowOutputs(weight, within.first, n) : weight;
    if (own !== null) return { weight: own, bias: this.#bias(projection) };
    const why = isInOrder ? 'several projections that share words or scales' : 'its projection transposed';
    throw new ModelLoadError(
      `${this.#checkpoint.path}: tensor ${weight.tensor.name} is quantised, and holds ${why}: such models are served from ` +
        'floats only; use a checkpoint in float32, float16 or bfloat16',
    );
  }

  /**
   * A weight in one tensor, of floats or of blocks.
   * @throws ModelLoadError where it is no matrix of them.
   */
  #own(projection: Projection, k: number): LinearPart {
    const { name, n, within } = projection;
    const isTransposed = (projection.isTransposed ?? false) !== this.#checkpoint.isTurned(`${name}.weight`);
    const rows = within?.rows ?? n;
    const weight = this.#checkpoint.find(`${name}.weight`, isTransposed ? [k, rows] : [rows, k]);
    const own = within ? narrow(weight, isTransposed ? 1 : 0, within.first, n) : weight;
    const bias = this.#bias(projection);
    if (isTransposed) return { weight: { kind: 'transposed', shape: [n, k], tensor: own }, bias };
    return storedPart(own, bias);
  }

  /** A weight [n, k] as floats: where it is published in codes, the numbers that they encode. */
  #floats(projection: Projection, k: number): TensorSource {
    const { weight } = this.#part(projection, k);
    const { path, name } = weight.tensor;
    if (weight.kind === 'int8') {
      throw new ModelLoadError(
        `tensor ${name} of ${path} is published in int8, which latent attention is not served from; use a release in ` +
          'bfloat16 or FP8',
      );
    }
    if (weight.kind !== 'codes') return weight.tensor;
    const numbers = decodeCodes(weight);
    roundTo(this.dtype, numbers);
    const file = { name, path, byteOffset: 0, byteLength: numbers.byteLength };
    return { ...wholeTensor({ ...file, dtype: 'f32', shape: [projection.n, k] }), numbers };
  }

  #bias({ name, n, bias, within }: Projection): TensorSource | null {
    if (!bias) return null;
    const whole = this.#checkpoint.find(`${name}.bias`, [within?.rows ?? n]);
    return within ? narrow(whole, 0, within.first, n) : whole;
  }

  /**
   * @param made the format that plain weights are brought to.
   * @throws ModelLoadError where parts that are multiplied together are published in different formats.
   */
  #formatOf(parts: readonly LinearPart[], made: WeightFormat): WeightFormat {
    const formats = parts.map(({ weight }) => publishedFormat(weight));
    const names = formats.map((format) => (format === null ? 'not quantised' : formatName(format)));
    const other = names.findIndex((name) => name !== names[0]);
    if (other < 0) return formats[0] ?? made;
    const [first, second] = [parts[0]!, parts[other]!].map(({ weight }) => weight.tensor.name);
    throw new ModelLoadError(
      `${this.#checkpoint.path}: ${first} is ${names[0]} and ${second} is ${names[other]}, which are multiplied together; ` +
        'mend quantization_config ("ignore") or fetch the model again',
    );
  }

  #count<T extends { readonly byteLength: number }>(weight: T): T {
    this.#packedBytes += weight.byteLength;
    return weight;
  }
}

/** numbers [rows, pixels, 3] -> [rows, 3, pixels] */
function coloursApart(numbers: Float32Array, pixels: number): Float32Array {
  const patch = pixels * CHANNELS;
  return numbers.map((_, to) => {
    const at = to % patch;
    return numbers[to - at + (at % pixels) * CHANNELS + Math.floor(at / pixels)]!;
  });
}

function countChannels({ shared, whole = 0 }: ChannelRanges): number {
  return sum(shared) + whole;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

/** Whether some are blocks, and not all of them of one format. */
function hasMixedBlocks(parts: readonly LinearPart[]): boolean {
  return startsOfFormats(parts).length > 1;
}

/** Where neighbours that are in blocks of one format, or in none, begin. */
function startsOfFormats(parts: readonly LinearPart[]): number[] {
  const formats = parts.map(({ weight }) => (weight.kind === 'blocks' ? weight.format : null));
  return [...formats.keys()].filter((i) => i === 0 || formats[i] !== formats[i - 1]);
}

/** Null for floats, which may be brought to any format. */
function publishedFormat(weight: LinearWeightSource): WeightFormat | null {
  if (weight.kind === 'codes' || weight.kind === 'blocks') return weight.format;
  return weight.kind === 'int8' ? 'int8' : null;
}
