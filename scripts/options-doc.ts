// Writes docs/reference/options.md and proxy-options.md from the tables of options: npx tsx scripts/options-doc.ts

import { writeFileSync } from 'node:fs';
import { optionsPage, proxyOptionsPage } from './options-page.ts';

const reference = new URL('../docs/reference/', import.meta.url);
writeFileSync(new URL('options.md', reference), optionsPage());
writeFileSync(new URL('proxy-options.md', reference), proxyOptionsPage());
