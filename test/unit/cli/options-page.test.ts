import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { optionsPage } from '../../../src/cli/options-page.ts';

it('docs/reference/options.md is what the table of options says (npx tsx scripts/options-doc.ts writes it)', () => {
  expect(readFileSync('docs/reference/options.md', 'utf8')).toBe(optionsPage());
});
