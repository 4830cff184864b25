// A set of tokens: a list where they are few, a bit each where they are many.

export interface TokenSet {
  readonly ids: Int32Array | null;
  readonly bits: Uint32Array | null;
}

/** Keeps what of a mask is set. */
export function toTokenSet(mask: Uint32Array): TokenSet {
  let count = 0;
  for (const word of mask) count += bitsOf(word);
  // A list is as long as the mask at most.
  if (count > mask.length) return { ids: null, bits: mask.slice() };
  const ids = new Int32Array(count);
  let at = 0;
  for (let i = 0; i < mask.length; i += 1) {
    for (let word = mask[i]!; word !== 0; word &= word - 1) {
      ids[at] = i * 32 + 31 - Math.clz32(word & -word);
      at += 1;
    }
  }
  return { ids, bits: null };
}

/** Of a list, in which a token may be more than once. */
export function tokenSetOf(ids: readonly number[], maskWords: number): TokenSet {
  if (ids.length <= maskWords) return { ids: Int32Array.from(ids), bits: null };
  const bits = new Uint32Array(maskWords);
  for (const id of ids) setBit(bits, id);
  return { ids: null, bits };
}

export function unionOf(sets: readonly TokenSet[], maskWords: number): TokenSet {
  const [only, ...others] = sets;
  if (only !== undefined && others.length === 0) return only;
  const bits = new Uint32Array(maskWords);
  fillWith(bits, sets);
  return sets.some((set) => set.bits !== null) ? { ids: null, bits } : toTokenSet(bits);
}

export function bytesOfSet({ ids, bits }: TokenSet): number {
  return (ids ?? bits)!.byteLength;
}

/** Writes the union of sets. */
export function fillWith(mask: Uint32Array, sets: readonly TokenSet[]): void {
  // Copying the first one costs a tenth of clearing the mask and adding it.
  const first = sets.find(({ bits }) => bits !== null);
  if (first === undefined) mask.fill(0);
  else mask.set(first.bits!);
  for (const set of sets) if (set !== first) addTo(mask, set);
}

export function addTo(mask: Uint32Array, { ids, bits }: TokenSet): void {
  if (ids !== null) for (let i = 0; i < ids.length; i += 1) setBit(mask, ids[i]!);
  if (bits !== null) for (let i = 0; i < bits.length; i += 1) mask[i]! |= bits[i]!;
}

export function setBit(mask: Uint32Array, token: number): void {
  mask[token >>> 5]! |= 1 << (token & 31);
}

export function clearBit(mask: Uint32Array, token: number): void {
  mask[token >>> 5]! &= ~(1 << (token & 31));
}

function bitsOf(word: number): number {
  let bits = word - ((word >>> 1) & 0x55555555);
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
  return (((bits + (bits >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}
