// The version of this package, as package.json has it. The command line shows it and the server tells it.

import { readFileSync } from 'node:fs';
import * as z from 'zod';

const packageFile = z.object({ version: z.string() });

export function version(): string {
  const path = new URL('../../package.json', import.meta.url);
  return packageFile.parse(JSON.parse(readFileSync(path, 'utf8'))).version;
}
