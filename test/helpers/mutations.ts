// Damages files as chance and attackers do: for tests that no damage of a model's file does more than refuse it.

/** Numbers that overflow, wrap, or are taken for another sign. */
const EDGES: readonly bigint[] = [
  0n,
  1n,
  0x7fn,
  0xffn,
  0x7fff_ffffn,
  0x8000_0000n,
  0xffff_ffffn,
  2n ** 53n,
  2n ** 62n,
  2n ** 63n - 1n,
  2n ** 63n,
  2n ** 64n - 1n,
];

/**
 * A damaged copy of `bytes`: one to four times something is overwritten, moved, cut off or put in.
 * @param next gives numbers in [0, 1).
 * @param within bytes from the beginning that are of interest.
 */
export function mutate(bytes: Uint8Array, next: () => number, within = bytes.length): Buffer {
  let damaged: Buffer = Buffer.from(bytes);
  for (let count = 1 + Math.floor(next() * 4); count > 0; count -= 1)
    damaged = mutateOnce(damaged, next, within);
  return damaged;
}

function mutateOnce(bytes: Buffer, next: () => number, within: number): Buffer {
  const at = Math.floor(next() * Math.min(within, bytes.length));
  const length = Math.floor(next() * 64);
  switch (Math.floor(next() * 6)) {
    case 0:
      bytes[at] = Math.floor(next() * 256);
      return bytes;
    case 1:
      bytes[at] = (bytes[at] ?? 0) ^ (1 << Math.floor(next() * 8));
      return bytes;
    case 2: {
      const edge = Buffer.alloc(8);
      edge.writeBigUInt64LE(EDGES[Math.floor(next() * EDGES.length)]!);
      edge.copy(bytes, at, 0, next() < 0.5 ? 4 : 8);
      return bytes;
    }
    case 3:
      return bytes.subarray(0, at);
    case 4:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(Math.min(at + length, bytes.length))]);
    default:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at, at + length), bytes.subarray(at)]);
  }
}
