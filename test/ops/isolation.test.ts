// The linker must never pick a function that was compiled for a newer processor where an older one calls it.

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { needs } from '../helpers/needs.ts';

const objects = fileURLToPath(new URL('../../native/build/cpu', import.meta.url));
const sets = ['avx2', 'avx512', 'amx'].map((name) => join(objects, name)).filter((path) => existsSync(path));
const hasNm = spawnSync('nm', ['--version']).error === undefined;

describe(
  'objects of an instruction set',
  needs(sets.length > 0 && hasNm, 'there is no native build or no nm'),
  () => {
    it.each(sets)('%s shares no function with other objects', (folder) => {
      const files = readdirSync(folder).filter((name) => name.endsWith('.o'));
      expect(files.length).toBeGreaterThan(0);
      const listed = spawnSync('nm', files, { cwd: folder, encoding: 'utf8' });
      expect(listed.status).toBe(0);
      // W: a function or variable of which every object may bring a copy, one of which is kept.
      expect(listed.stdout.split('\n').filter((line) => / [Wu] /.test(line))).toEqual([]);
    });
  },
);
