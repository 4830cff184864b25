// The model source over a GGUF file, or the files of a model that is split, with the encoder of images beside it: texts that a folder
// would have as files are made of their metadata.

import { BLOCKS, type BlockDType, isBlockDType } from '../../../ops/dtype.ts';
import type { ModelText } from '../../../util/model-file.ts';
import type { ModelFileName } from '../../../util/model-files.ts';
import { Checkpoint } from '../checkpoint.ts';
import type { StoredTensor } from '../safetensors.ts';
import { weightFingerprint } from '../weight-fingerprint.ts';
import { type EncoderFile, findEncoderFile, imageConfig, wholeConfig } from './encoders/encoder-file.ts';
import { encoderTensors, textTensors } from './encoders/encoder-tensors.ts';
import { findGgufArchitecture, ggufConfig, headDimOf } from './gguf-config.ts';
import { type GgufFile, readGguf } from './gguf-file.ts';
import { GgufKeys } from './gguf-keys.ts';
import { ggufSentenceFile, poolingNote } from './gguf-pooling.ts';
import { publishedTensors } from './gguf-tensors.ts';
import {
  ggufChatTemplates,
  ggufGenerationConfig,
  ggufTokenizer,
  ggufTokenizerConfig,
} from './gguf-tokenizer.ts';
import { readParts } from './split-files.ts';

interface OpenedFiles {
  /** Of the part that reads text. */
  readonly parts: readonly [GgufFile, ...GgufFile[]];
  readonly keys: GgufKeys;
  /** Null where the model sees no images. */
  readonly encoder: EncoderFile | null;
  readonly note: string | null;
}

export class GgufSource {
  readonly path: string;
  #opened: OpenedFiles | null = null;

  /** @param path of the file, the first one of several. */
  constructor(path: string) {
    this.path = path;
  }

  read(name: ModelFileName): ModelText | null {
    switch (name) {
      case 'config.json':
        return this.#json(this.#config());
      case 'preprocessor_config.json':
        return this.#json(this.#encoder && imageConfig(this.#encoder));
      case 'generation_config.json':
        return this.#json(ggufGenerationConfig(this.#keys));
      case 'tokenizer.json':
        return this.#json(ggufTokenizer(this.#keys));
      case 'tokenizer_config.json':
        return this.#json(ggufTokenizerConfig(this.#keys));
      case 'chat_template.json':
        return this.#json(ggufChatTemplates(this.#keys));
      default:
        return this.#json(ggufSentenceFile(this.#keys, name));
    }
  }

  /** The vocabulary is in the metadata. */
  readBytes(): null {
    return null;
  }

  openCheckpoint(): Checkpoint {
    const architecture = findGgufArchitecture(this.#keys);
    const heads = { count: this.#keys.need('attention.head_count'), dim: headDimOf(this.#keys) };
    const encoder = this.#encoder;
    return new Checkpoint(
      this.path,
      this.#files.map(({ path }) => path),
      (path) => {
        if (path === encoder?.file.path) return new Map(encoderTensors(encoder));
        const tensors = publishedTensors(readGguf(path), architecture, heads);
        return encoder === null ? tensors : new Map(textTensors(encoder, tensors));
      },
    );
  }

  fingerprint(): string {
    return weightFingerprint('', this.#files);
  }

  /** Memory that the weights take once they are loaded, about. @param keepsBits whether codes keep their number of bits. */
  loadedBytes(keepsBits: boolean): number {
    const { parts, encoder } = this.#open();
    const kept = (block: BlockDType): number => BLOCKS[block][keepsBits ? 'packedBytes' : 'wideBytes'];
    const inHalves = (block: BlockDType): number => 2 * BLOCKS[block].numbers;
    return bytesOf(parts, kept) + bytesOf(encoder === null ? [] : [encoder.file], inHalves);
  }

  get note(): string | null {
    return this.#open().note ?? poolingNote(this.#keys);
  }

  get #isQuantized(): boolean {
    return tensorsOf(this.#open().parts).some(
      ({ dtype }) => dtype === 'I2_S' || isBlockDType(dtype.toLowerCase()),
    );
  }

  #config(): object {
    const text = ggufConfig(this.#keys, this.#isQuantized);
    return this.#encoder === null ? text : wholeConfig(this.#encoder, this.#keys, text);
  }

  get #keys(): GgufKeys {
    return this.#open().keys;
  }

  get #encoder(): EncoderFile | null {
    return this.#open().encoder;
  }

  get #files(): readonly GgufFile[] {
    const { parts, encoder } = this.#open();
    return encoder === null ? parts : [...parts, encoder.file];
  }

  #open(): OpenedFiles {
    if (this.#opened !== null) return this.#opened;
    const parts = readParts(this.path);
    const keys = new GgufKeys(parts);
    this.#opened = { parts, keys, ...findEncoderFile(this.path, keys) };
    return this.#opened;
  }

  #json(content: object | null): ModelText | null {
    return content && { path: this.path, text: JSON.stringify(content) };
  }
}

function tensorsOf(files: readonly GgufFile[]): StoredTensor[] {
  return files.flatMap(({ tensors }) => [...tensors.values()]);
}

/** Of all tensors, where each block takes `ofBlock` bytes. */
function bytesOf(files: readonly GgufFile[], ofBlock: (block: BlockDType) => number): number {
  return tensorsOf(files).reduce((sum, { dtype, byteLength }) => {
    const block = dtype.toLowerCase();
    return sum + (isBlockDType(block) ? (byteLength / BLOCKS[block].bytes) * ofBlock(block) : byteLength);
  }, 0);
}
