// The model source over a GGUF file, or the files of a model that is split: texts that a folder would have as files are made of its
// metadata.

import { BLOCKS, type BlockDType, isBlockDType } from '../../../ops/dtype.ts';
import type { ModelText } from '../../../util/model-file.ts';
import type { ModelFileName } from '../../../util/model-files.ts';
import { Checkpoint } from '../checkpoint.ts';
import { weightFingerprint } from '../weight-fingerprint.ts';
import { findGgufArchitecture, ggufConfig, headDimOf } from './gguf-config.ts';
import { type GgufFile, readGguf } from './gguf-file.ts';
import { GgufKeys } from './gguf-keys.ts';
import { publishedTensors } from './gguf-tensors.ts';
import {
  ggufChatTemplates,
  ggufGenerationConfig,
  ggufTokenizer,
  ggufTokenizerConfig,
} from './gguf-tokenizer.ts';
import { readParts } from './split-files.ts';

export class GgufSource {
  readonly path: string;
  #opened: { readonly parts: readonly [GgufFile, ...GgufFile[]]; readonly keys: GgufKeys } | null = null;

  /** @param path of the file, the first one of several. */
  constructor(path: string) {
    this.path = path;
  }

  read(name: ModelFileName): ModelText | null {
    switch (name) {
      case 'config.json':
        return this.#json(ggufConfig(this.#keys, this.#isQuantized));
      case 'generation_config.json':
        return this.#json(ggufGenerationConfig(this.#keys));
      case 'tokenizer.json':
        return this.#json(ggufTokenizer(this.#keys));
      case 'tokenizer_config.json':
        return this.#json(ggufTokenizerConfig(this.#keys));
      case 'chat_template.json':
        return this.#json(ggufChatTemplates(this.#keys));
      default:
        return null;
    }
  }

  /** The vocabulary is in the metadata. */
  readBytes(): null {
    return null;
  }

  openCheckpoint(): Checkpoint {
    const architecture = findGgufArchitecture(this.#keys);
    const heads = { count: this.#keys.need('attention.head_count'), dim: headDimOf(this.#keys) };
    const paths = this.#parts.map((part) => part.path);
    return new Checkpoint(this.path, paths, (path) => publishedTensors(readGguf(path), architecture, heads));
  }

  fingerprint(): string {
    return weightFingerprint('', this.#parts);
  }

  /** Memory that the weights take once they are loaded, about. @param keepsBits whether codes keep their number of bits. */
  loadedBytes(keepsBits: boolean): number {
    const bytesOf = (block: BlockDType): number => BLOCKS[block][keepsBits ? 'packedBytes' : 'wideBytes'];
    return this.#tensors.reduce((sum, { dtype, byteLength }) => {
      const block = dtype.toLowerCase();
      return sum + (isBlockDType(block) ? (byteLength / BLOCKS[block].bytes) * bytesOf(block) : byteLength);
    }, 0);
  }

  get #isQuantized(): boolean {
    return this.#tensors.some(({ dtype }) => dtype === 'I2_S' || isBlockDType(dtype.toLowerCase()));
  }

  get #tensors() {
    return this.#parts.flatMap((part) => [...part.tensors.values()]);
  }

  get #keys(): GgufKeys {
    return this.#open().keys;
  }

  get #parts(): readonly GgufFile[] {
    return this.#open().parts;
  }

  #open() {
    if (this.#opened !== null) return this.#opened;
    const parts = readParts(this.path);
    this.#opened = { parts, keys: new GgufKeys(parts) };
    return this.#opened;
  }

  #json(content: object | null): ModelText | null {
    return content && { path: this.path, text: JSON.stringify(content) };
  }
}
