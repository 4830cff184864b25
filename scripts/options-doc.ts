// Writes docs/reference/options.md from the one table of options: npx tsx scripts/options-doc.ts

import { writeFileSync } from 'node:fs';
import { optionsPage } from '../src/cli/options-page.ts';

writeFileSync(new URL('../docs/reference/options.md', import.meta.url), optionsPage());
