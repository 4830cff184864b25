// Where the large fixtures are: beside the checkout where they exist, nowhere else; tests that need them are skipped.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Absolute path of a shared fixture, null where this machine has none. */
export function sharedFixture(path: string): string | null {
  const full = fileURLToPath(new URL(`../../../shared/fixtures/${path}`, import.meta.url));
  return existsSync(full) ? full : null;
}
