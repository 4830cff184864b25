// A model source with random weights in the shapes that the architecture asks for, for measuring: config.json is all that it needs.

import { createHash, randomUUID } from 'node:crypto';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as z from 'zod';
import { ConfigError, ModelLoadError } from '../../errors.ts';
import { BYTES_PER_ELEMENT, type StorageDType } from '../../ops/dtype.ts';
import { type TensorSource, wholeTensor } from '../../ops/weights.ts';
import { type ModelBytes, type ModelText, parseModelJson } from '../../util/model-file.ts';
import type { ModelFileName, SENTENCEPIECE_FILE } from '../../util/model-files.ts';
import { Checkpoint } from './checkpoint.ts';
import type { ModelSource } from './model-source.ts';

const quantized = z.object({ quantization_config: z.unknown().optional() });

export class DummySource implements ModelSource {
  readonly #source: ModelSource;

  /** @param source whose texts are read, and no weight. */
  constructor(source: ModelSource) {
    this.#source = source;
  }

  get path(): string {
    return this.#source.path;
  }

  read(name: ModelFileName): ModelText | null {
    return this.#source.read(name);
  }

  readBytes(name: typeof SENTENCEPIECE_FILE): ModelBytes | null {
    return this.#source.readBytes(name);
  }

  openCheckpoint(): Checkpoint {
    const config = this.read('config.json');
    if (config !== null && parseModelJson(config, quantized).quantization_config)
      throw isQuantized(this.path);
    return new DummyCheckpoint(this.path);
  }

  fingerprint(): string {
    const config = this.read('config.json')?.text ?? '';
    return createHash('sha256').update(`dummy\n${config}`).digest('hex');
  }
}

/** Numbers are made once in a piece of this size, and repeat. */
const PIECE_BYTES = 1 << 24;
/** Tensors begin at places of the file that are so many bytes apart, or a multiple. */
const PLACE_BYTES = 64;
const PLACES = 1021;

/**
 * Has every tensor that it is asked for. All are cut from one temporary file of small numbers, which is as large as the largest:
 * a model takes no more of the disk than its embeddings.
 */
class DummyCheckpoint extends Checkpoint {
  #file: NumbersFile | null = null;

  constructor(path: string) {
    super(path, [], () => new Map());
  }

  override findAs<T extends StorageDType>(
    name: string,
    shape: readonly number[],
    dtypes: readonly T[],
  ): TensorSource & { readonly dtype: T } {
    const dtype = dtypes.find((one) => one === 'bf16');
    if (dtype === undefined) throw isQuantized(this.path);
    const byteLength = shape.reduce((product, size) => product * size, BYTES_PER_ELEMENT.bf16);
    // By its name: every stage and rank, in whatever order they ask, gets the same tensor.
    const place = createHash('sha256').update(name).digest().readUInt32LE(0) % PLACES;
    const byteOffset = place * PLACE_BYTES;
    this.#file ??= new NumbersFile();
    const path = this.#file.grownTo(byteOffset + byteLength);
    return { ...wholeTensor({ name, path, byteOffset, byteLength, dtype, shape }), dtype };
  }

  override lacks(): boolean {
    return false;
  }

  override close(): void {
    this.#file?.close();
    this.#file = null;
  }
}

function isQuantized(path: string): ConfigError {
  return new ConfigError(
    `--load-format dummy: ${path} is quantised, and such weights cannot be made up: take a model that is not, and give --quantization`,
    { param: 'load-format' },
  );
}

/**
 * A temporary file of random bf16 numbers of any sign and a size of 1/64 to 1/32. It has no name of its own in the folder, so that
 * nothing is left of it however the process ends.
 */
class NumbersFile {
  readonly #file = openNameless(tmpdir());
  readonly #piece = smallNumbers();
  #bytes = 0;

  /**
   * @returns a path that this process can open, once the file has so many bytes.
   * @throws ModelLoadError where the disk has no room for them.
   */
  grownTo(bytes: number): string {
    try {
      while (this.#bytes < bytes) this.#bytes += writeSync(this.#file, this.#piece);
    } catch (error) {
      throw cannotWrite(error, `${bytes} bytes`);
    }
    return `/proc/self/fd/${this.#file}`;
  }

  close(): void {
    closeSync(this.#file);
  }
}

function openNameless(folder: string): number {
  const path = join(folder, `svc-dummy-${randomUUID()}`);
  try {
    const file = openSync(path, 'wx', 0o600);
    rmSync(path);
    return file;
  } catch (error) {
    throw cannotWrite(error, 'a file');
  }
}

function cannotWrite(error: unknown, what: string): ModelLoadError {
  const reason = error instanceof Error ? error.message : String(error);
  return new ModelLoadError(
    `${tmpdir()} cannot take ${what} of made-up weights (${reason}): free some space, or name a folder on another disk by TMPDIR`,
    { cause: error },
  );
}

/** Two numbers a word, by xorshift: sign and fraction are random, the exponent is that of 1/64. */
function smallNumbers(): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(PIECE_BYTES / Uint32Array.BYTES_PER_ELEMENT);
  let state = 0x9e3779b9;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = (state & 0x807f807f) | 0x3c803c80;
  }
  return words;
}
