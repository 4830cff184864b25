// How the threads of the pool share the tasks of a product of few rows.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { needsNative } from '../helpers/needs.ts';

const NATIVE = fileURLToPath(new URL('../../native', import.meta.url));

describe('shares of tasks', needsNative, () => {
  it('give each task to one thread, and a thread its own ones first, in their order', () => {
    const made = spawnSync('make', ['--silent', '-C', NATIVE, 'WERROR=-Werror', 'build/shares-check'], {
      encoding: 'utf8',
    });
    expect(made.stderr).toBe('');
    const { stdout, status } = spawnSync(`${NATIVE}/build/shares-check`, { encoding: 'utf8' });
    expect(stdout).toMatch(/^\d{3,}\n$/);
    expect(status).toBe(0);
  });
});
