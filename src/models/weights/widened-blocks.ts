// Blocks that no codes of the backend hold without loss are computed with in bfloat16: how many, and what that takes.

import { isBlockDType, storedBytes } from '../../ops/dtype.ts';
import type { LinearPart } from '../../ops/weights.ts';
import { bytes } from '../../util/bytes.ts';

const BF16_BYTES = 2;

export class WidenedBlocks {
  readonly #formats = new Set<string>();
  #storedBytes = 0;
  #numbers = 0;

  /** Counts those of `parts` that are loaded as numbers. */
  add(parts: readonly LinearPart[]): void {
    for (const { weight } of parts) {
      const { dtype, shape } = weight.tensor;
      if (weight.kind !== 'plain' || !isBlockDType(dtype)) continue;
      this.#formats.add(dtype.toUpperCase());
      const numbers = shape.reduce((product, length) => product * length, 1);
      this.#storedBytes += storedBytes(dtype, numbers);
      this.#numbers += numbers;
    }
  }

  /** One line for a person; null where nothing was added. */
  get note(): string | null {
    if (this.#numbers === 0) return null;
    const formats = [...this.#formats].sort().join(', ');
    const memory = bytes(this.#numbers * BF16_BYTES);
    return (
      `weights in ${formats} are computed with in bfloat16: they take ${memory} of memory, in the file ` +
      `${bytes(this.#storedBytes)}; Q8_0, Q5_0, Q4_0, Q3_K, IQ4_NL, IQ4_XS and MXFP4 stay as they are where all that is multiplied together is`
    );
  }
}
