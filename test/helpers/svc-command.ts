// What a test starts `svc` by: dist/ where it is what the sources make, as after `npm test` has built it; else the sources,
// with which a process needs two more seconds of a core before it does anything.

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Arguments of Node. */
export const SVC_COMMAND: readonly string[] = isBuilt()
  ? ['dist/cli/main.js']
  : ['--import', 'tsx', 'src/cli/main.ts'];

export function isBuilt(): boolean {
  const builtAt = changedAt('dist/.build');
  // A file that is gone or new has changed its folder.
  const sources = [
    'src',
    ...readdirSync('src', { recursive: true, encoding: 'utf8' }).map((path) => join('src', path)),
  ];
  return sources.every((path) => changedAt(path) < builtAt);
}

function changedAt(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
