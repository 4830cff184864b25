// What a mistyped name was probably meant to be.

/** The name of `known` nearest to `typed`, null when none is near. Case, dashes and underscores do not count. */
export function nearestName(typed: string, known: Iterable<string>): string | null {
  const wanted = simplify(typed);
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(wanted.length * 0.4)) + 1;
  for (const name of known) {
    const distance = editDistance(wanted, simplify(name));
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}

/** `; did you mean X?` or nothing: the end of a message that refuses `typed`. */
export function didYouMean(typed: string, known: Iterable<string>): string {
  const nearest = nearestName(typed, known);
  return nearest === null ? '' : `; did you mean ${nearest}?`;
}

function simplify(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, '');
}

/** Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, replaced);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwap) cost = Math.min(cost, beforeLast[j - 2]! + 1);
      row.push(cost);
    }
    [beforeLast, last] = [last, row];
  }
  return last[b.length]!;
}
