// Sets of tokens as bits, in the layout of the ops' masks: bit i % 32 of word i / 32 is token i.

export function maskOf(numWords: number, ids: Iterable<number>): Uint32Array {
  const mask = new Uint32Array(numWords);
  for (const id of ids) mask[id >>> 5]! |= 1 << (id & 31);
  return mask;
}

export function has(mask: Uint32Array, id: number): boolean {
  return ((mask[id >>> 5]! >>> (id & 31)) & 1) === 1;
}

export function isEmpty(mask: Uint32Array): boolean {
  // A loop: this is asked of every row of every step.
  for (let word = 0; word < mask.length; word += 1) if (mask[word] !== 0) return false;
  return true;
}

/** The token of a set that has no other; null of any other set. */
export function onlyOne(mask: Uint32Array): number | null {
  const first = mask.findIndex((word) => word !== 0);
  if (first < 0) return null;
  const word = mask[first]!;
  const isAlone = (word & (word - 1)) === 0 && mask.findLastIndex((other) => other !== 0) === first;
  return isAlone ? first * 32 + 31 - Math.clz32(word) : null;
}

/** Takes out all that are not in `kept`. */
export function intersect(mask: Uint32Array, kept: Uint32Array): void {
  for (let word = 0; word < mask.length; word += 1) mask[word]! &= kept[word]!;
}

/** Takes out `ids`, unless nothing would be left. */
export function removeUnlessAll(mask: Uint32Array, ids: Iterable<number>): void {
  const removed = [...ids].filter((id) => has(mask, id));
  if (removed.length === 0) return;
  for (const id of removed) mask[id >>> 5]! &= ~(1 << (id & 31));
  if (isEmpty(mask)) for (const id of removed) mask[id >>> 5]! |= 1 << (id & 31);
}
