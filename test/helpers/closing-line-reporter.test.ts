import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const VITEST = resolve('node_modules/vitest/vitest.mjs');
const REPORTER = resolve('test/helpers/closing-line-reporter.ts');
const NEEDS = resolve('test/helpers/needs.ts');

const newFolder = temporaryFolders();

it('the last lines of a run tell why tests were skipped, and the very last one counts', () => {
  const folder = newFolder();
  mkdirSync(folder);
  const source = `
    import { needs } from ${JSON.stringify(NEEDS)};
    describe('a suite', needs(false, 'there is no ladder'), () => {
      it('needs a ladder', () => {});
      describe.each([1, 2])('and %s', () => it('does too', () => {}));
    });
    it('needs a rope', needs(false, 'there is no rope'), () => {});
    it('finds out for itself', ({ skip }) => skip('there is no rope'));
    it('is not asked for', () => {});
    it('has all that it needs', needs(true, 'never'), () => {});
    it('fails', () => expect(1).toBe(2));`;
  writeFileSync(join(folder, 'some.test.ts'), source);
  const asked = ['--testNamePattern', '^(?!is not asked for)'];
  const args = [VITEST, 'run', '--root', folder, '--globals', '--reporter', REPORTER, ...asked];
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 50_000 });
  expect(stdout.trim().split('\n')).toEqual([
    'skipped 3: there is no ladder',
    'skipped 2: there is no rope',
    'skipped 1: they were not asked for',
    '1 passed, 1 failed, 6 skipped',
  ]);
});
