// A folder for one test file, removed after it.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

/** Gives the path of a new, not yet existing folder at each call. */
export function temporaryFolders(): () => string {
  const root = mkdtempSync(join(os.tmpdir(), 'svc-test-'));
  afterAll(() => rmSync(root, { recursive: true }));
  let count = 0;
  return () => join(root, `folder-${count++}`);
}
