// What an adapter adds to one product, as an index that the addon gave out.

import type { NativeBackend } from '../../native/native-backend.ts';
import { BYTES_PER_ELEMENT } from '../dtype.ts';
import type { Lora, LoraNumbers } from '../lora.ts';

export class NativeLora implements Lora {
  readonly native: NativeBackend;
  readonly index: number;
  readonly byteLength: number;

  constructor(native: NativeBackend, numbers: LoraNumbers) {
    const { dtype, k, n, isGateUp, a, scales, parts, b } = numbers;
    this.native = native;
    const shapes = Int32Array.from(
      parts.flatMap(({ firstColumn, columns, firstRank, ranks }) => [firstColumn, columns, firstRank, ranks]),
    );
    this.index = native.makeLora(dtype !== 'f32', k, n, isGateUp, a, scales, shapes, b);
    this.byteLength = (a.length + b.length) * BYTES_PER_ELEMENT[dtype];
  }

  free(): void {
    this.native.freeLora(this.index);
  }
}
