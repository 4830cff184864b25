// Paths that a person types behind a command.

import { join } from 'node:path';
import { homeFolder } from '../../util/home-folder.ts';

/** The tilde is the shell's, which has no part in this. */
export function typedPath(path: string): string {
  return path.startsWith('~/') ? join(homeFolder(), path.slice(2)) : path;
}
