import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { optionsPage, proxyOptionsPage } from '../../scripts/options-page.ts';

it('the reference pages are what the tables of options say (npx tsx scripts/options-doc.ts writes them)', () => {
  expect(readFileSync('docs/reference/options.md', 'utf8')).toBe(optionsPage());
  expect(readFileSync('docs/reference/proxy-options.md', 'utf8')).toBe(proxyOptionsPage());
});
