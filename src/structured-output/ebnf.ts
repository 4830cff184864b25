// Grammars in EBNF.

import type { GrammarBuilder } from './grammar-builder.ts';

export function compileEbnf(source: string, builder: GrammarBuilder): number {
  return builder.budget.refuse(`has a grammar of ${source.length} characters, which is not available`);
}
