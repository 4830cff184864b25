// Writes numbers as checkpoints of float16 hold them: svc itself only reads these.

const scratch = new Float32Array(1);
const scratchBits = new Uint32Array(scratch.buffer);

/** Writes the f16 form of `values` to `into`, ties to even; too large becomes infinity. */
export function packF16(values: Float32Array, into: Uint16Array): void {
  for (let i = 0; i < values.length; i++) into[i] = nearestF16(values[i]!);
}

function nearestF16(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  scratch[0] = value;
  const sign = (scratchBits[0]! >>> 16) & 0x8000;
  const size = Math.abs(value);
  if (size >= 65520) return sign | 0x7c00;
  // In steps of the last place; the smallest normal exponent also serves the subnormal numbers.
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 1)));
  const steps = roundHalfToEven(size / 2 ** (exponent - 10));
  // A carry into the next exponent is right as it stands: the bits go on counting.
  return sign | (size < 2 ** -14 ? steps : ((exponent + 15) << 10) + (steps - 1024));
}

function roundHalfToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return Math.round(value);
  return below + (below & 1);
}
