// Blocks that are not kept as codes but as numbers in bfloat16: gate and up of one layer in two formats, which are multiplied in one
// pass. Files whose makers chose a format for each tensor have such layers now and then.

import { isBlockDType, storedBytes } from '../../ops/dtype.ts';
import { type LinearPart, plainPart } from '../../ops/weights.ts';
import { bytes } from '../../util/bytes.ts';

const BF16_BYTES = 2;

export class WidenedBlocks {
  readonly #formats = new Set<string>();
  #storedBytes = 0;
  #numbers = 0;

  /** A part as numbers, counted where it is published in blocks. */
  widen({ weight, bias }: LinearPart): LinearPart {
    const { dtype, shape } = weight.tensor;
    // Numbers of -1, 0 and 1 with one scale may be beside such with several.
    const isOfBlocks = weight.kind === 'blocks' || weight.kind === 'int8';
    if (!isOfBlocks || !isBlockDType(dtype)) return { weight, bias };
    this.#formats.add(dtype.toUpperCase());
    const numbers = shape.reduce((product, length) => product * length, 1);
    this.#storedBytes += storedBytes(dtype, numbers);
    this.#numbers += numbers;
    return plainPart(weight.tensor, bias);
  }

  /** One line for a person; null where nothing was widened. */
  get note(): string | null {
    if (this.#numbers === 0) return null;
    const formats = [...this.#formats].sort().join(', ');
    const memory = bytes(this.#numbers * BF16_BYTES);
    return (
      `gates and ups in ${formats} are kept in bfloat16: they take ${memory} of memory, in the file ` +
      `${bytes(this.#storedBytes)}; a file that has both of a layer in one format keeps them as they are`
    );
  }
}
