// The files of a packed cache, which are written while the engine works and afterwards.

import { existsSync, readdirSync } from 'node:fs';
import { until } from './until.ts';

/** The names of those that are whole. */
export function packedFiles(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.packed')) : [];
}

export async function untilPacked(folder: string, count: number): Promise<void> {
  await until(() => packedFiles(folder).length === count);
}
