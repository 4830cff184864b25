// What a GGUF file says of its model, key by key, each of the type that is wanted.

import { ModelLoadError } from '../../../errors.ts';
import { readTensor } from '../../../ops/read-tensor.ts';
import { wholeTensor } from '../../../ops/weights.ts';
import { shortened } from '../../../util/preview.ts';
import {
  type GgufFile,
  type GgufList,
  type GgufValue,
  readFlags,
  readNumbers,
  readStrings,
} from './gguf-file.ts';

/** Of a list of numbers; a vector of rotary factors has some hundred. */
const MOST_FACTORS = 65_536;

export class GgufKeys {
  readonly path: string;
  /** The name of the architecture, which begins the keys of its numbers. */
  readonly architecture: string;
  readonly #metadata: GgufFile['metadata'];
  readonly #tensors: GgufFile['tensors'];
  /** Lists that were read: those of a vocabulary are wanted several times. */
  readonly #strings = new Map<string, readonly string[]>();

  /**
   * @param first file of the model, which says what it is
   * @param others that hold tensors only
   * @throws ModelLoadError where the file names no architecture.
   */
  constructor([first, ...others]: readonly [GgufFile, ...GgufFile[]]) {
    this.path = first.path;
    this.#metadata = first.metadata;
    this.#tensors = new Map([first, ...others].flatMap(({ tensors }) => [...tensors]));
    const architecture = this.text('general.architecture');
    if (architecture === null)
      throw new ModelLoadError(`${first.path}: the key general.architecture is missing`);
    // It begins the keys that errors name.
    this.architecture = shortened(architecture);
  }

  /** Null where the key is not there, as of all these. */
  text(key: string): string | null {
    return this.#get(key, 'a string', (value) => (typeof value === 'string' ? value : undefined));
  }

  flag(key: string): boolean | null {
    return this.#get(key, 'true or false', (value) => (typeof value === 'boolean' ? value : undefined));
  }

  number(key: string): number | null {
    return this.#get(key, 'a number', (value) => (typeof value === 'number' ? value : undefined));
  }

  /** A number of the architecture; a list that says the same of each layer is such a number, too. */
  ofModel(key: string): number | null {
    const list = this.ofLayers(key);
    return list ? this.#same(key, list) : this.number(`${this.architecture}.${key}`);
  }

  /** A number of each layer; null where there is one for all, or none. */
  ofLayers(key: string): number[] | null {
    const name = `${this.architecture}.${key}`;
    return typeof this.#metadata.get(name) === 'object' ? this.numbers(name) : null;
  }

  /** A number of the layers that `isOne` picks, where others may have another; null where there is none, or no such layer. */
  ofSomeLayers(key: string, isOne: (layer: number) => boolean): number | null {
    const list = this.ofLayers(key);
    if (list === null) return this.ofModel(key);
    if (list.length !== this.numLayers) {
      throw new ModelLoadError(
        `${this.path}: ${this.architecture}.${key} must have ${this.numLayers} items, one for each layer, it has ${list.length}`,
      );
    }
    const some = list.filter((_, layer) => isOne(layer));
    return some.length === 0 ? null : this.#same(key, some);
  }

  /** @throws ModelLoadError where the key is missing. */
  need(key: string): number {
    return this.expect(`${this.architecture}.${key}`, this.ofModel(key));
  }

  /** @throws ModelLoadError where the key is missing. */
  expect<T>(key: string, value: T | null): T {
    if (value !== null) return value;
    throw new ModelLoadError(`${this.path}: the key ${key} is missing; convert the model again`);
  }

  /** Blocks that guess tokens ahead are counted as well, and come last. */
  get numLayers(): number {
    return this.need('block_count') - (this.ofModel('nextn_predict_layers') ?? 0);
  }

  /** Of each layer that has attention; the others have 0. */
  get kvHeads(): number | null {
    const key = 'attention.head_count_kv';
    const list = this.ofLayers(key)?.filter((count) => count !== 0);
    return list ? this.#same(key, list) : this.ofModel(key);
  }

  /** Some converters write 0 for none. */
  get slidingWindow(): number | null {
    return this.ofModel('attention.sliding_window') || null;
  }

  /** The kind of each layer, as config.json names it. */
  get layerTypes(): string[] | null {
    const pattern = this.flags(`${this.architecture}.attention.sliding_window_pattern`);
    return pattern?.map((slides) => (slides ? 'sliding_attention' : 'full_attention')) ?? null;
  }

  numbers(key: string): number[] | null {
    const list = this.#list(key);
    return list && readNumbers(this.path, key, list);
  }

  flags(key: string): boolean[] | null {
    const list = this.#list(key);
    return list && readFlags(this.path, key, list);
  }

  strings(key: string): readonly string[] | null {
    const list = this.#list(key);
    if (list === null) return null;
    const strings = this.#strings.get(key) ?? readStrings(this.path, key, list);
    this.#strings.set(key, strings);
    return strings;
  }

  hasTensor(name: string): boolean {
    return this.#tensors.has(name);
  }

  /** The sizes of a tensor, null where it is not there. */
  shapeOf(name: string): readonly number[] | null {
    return this.#tensors.get(name)?.shape ?? null;
  }

  /** The format of a tensor by its name in GGUF, such as `F16`; null where it is not there. */
  formatOf(name: string): string | null {
    return this.#tensors.get(name)?.dtype ?? null;
  }

  /** A short vector of f32 among the tensors, null where it is not there. */
  vector(name: string): number[] | null {
    const tensor = this.#tensors.get(name);
    if (tensor === undefined) return null;
    if (tensor.dtype !== 'F32' || tensor.shape.length !== 1 || tensor.shape[0]! > MOST_FACTORS) {
      throw new ModelLoadError(
        `${this.path}: tensor ${name} must be a vector of F32, it is [${tensor.shape.join(', ')}] ${tensor.dtype}`,
      );
    }
    return [...readTensor(wholeTensor({ ...tensor, name, dtype: 'f32' }), 'f32')];
  }

  #same(key: string, [first, ...others]: readonly number[]): number {
    if (first !== undefined && others.every((other) => other === first)) return first;
    throw new ModelLoadError(
      `${this.path}: ${this.architecture}.${key} differs between layers, which svc does not serve`,
    );
  }

  #list(key: string): GgufList | null {
    return this.#get(key, 'a list', (value) => (typeof value === 'object' ? value : undefined));
  }

  #get<T>(key: string, expected: string, narrow: (value: GgufValue) => T | undefined): T | null {
    const value = this.#metadata.get(key);
    if (value === undefined) return null;
    const narrowed = narrow(value);
    if (narrowed !== undefined) return narrowed;
    throw new ModelLoadError(`${this.path}: the key ${key} must be ${expected}; fetch the file again`);
  }
}
