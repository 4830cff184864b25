// Sets of tokens as bits, in the layout of the ops' masks: bit i % 32 of word i / 32 is token i.

export function maskOf(numWords: number, ids: Iterable<number>): Uint32Array {
  const mask = new Uint32Array(numWords);
  for (const id of ids) addTo(mask, id);
  return mask;
}

export function addTo(mask: Uint32Array, id: number): void {
  mask[id >>> 5]! |= 1 << (id & 31);
}

export function has(mask: Uint32Array, id: number): boolean {
  return ((mask[id >>> 5]! >>> (id & 31)) & 1) === 1;
}

export function isEmpty(mask: Uint32Array): boolean {
  // A loop: this is asked of every row of every step.
  for (let word = 0; word < mask.length; word += 1) if (mask[word] !== 0) return false;
  return true;
}

/** The tokens of a set of at most `most`, ascending; null of a larger one. */
export function fewIn(mask: Uint32Array, most: number): number[] | null {
  const ids: number[] = [];
  for (let index = 0; index < mask.length; index += 1) {
    for (let word = mask[index]!; word !== 0; word &= word - 1) {
      if (ids.length === most) return null;
      ids.push(index * 32 + 31 - Math.clz32(word & -word));
    }
  }
  return ids;
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
  if (isEmpty(mask)) for (const id of removed) addTo(mask, id);
}
