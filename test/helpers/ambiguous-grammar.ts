// A grammar of a few lines that can be read in 2^40 ways: each rule is the next one or the next one.

const LEVELS = 40;
const level = (index: number): string => (index < LEVELS ? `a${index + 1} | a${index + 1}` : '"b" root? "c"');

export const AMBIGUOUS_GRAMMAR = [
  'root ::= a0',
  ...Array.from({ length: LEVELS + 1 }, (_, index) => `a${index} ::= ${level(index)}`),
].join('\n');
