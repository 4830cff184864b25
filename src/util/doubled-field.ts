// Finds what JSON.parse hides: a field that an object has twice, of which it keeps the last.

import { visit } from 'jsonc-parser';

/**
 * The first name that two fields of the object have; null where there is none.
 * @param text an object in JSON that JSON.parse takes; objects in it are not looked into.
 */
export function doubledField(text: string): string | null {
  const names = new Set<string>();
  let doubled: string | null = null;
  let depth = 0;
  visit(text, {
    onObjectBegin: () => {
      depth += 1;
    },
    onObjectProperty: (name) => {
      if (depth !== 1) return;
      if (names.has(name)) doubled ??= name;
      names.add(name);
    },
    onObjectEnd: () => {
      depth -= 1;
    },
  });
  return doubled;
}
