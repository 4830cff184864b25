// Which files a batch may write over.

import { execFileSync } from 'node:child_process';
import { linkSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { findOutput } from '../../src/cli/run-batch/batch-output.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const folder = temporaryFolders()();
mkdirSync(folder);
const at = (name: string): string => join(folder, name);
const input = at('requests.jsonl');
writeFileSync(input, '{}\n');

describe('the output of a batch', () => {
  it('is the file of that name, or what a link of that name points to, there already or not', () => {
    const real = realpathSync(folder);
    writeFileSync(at('there'), 'an earlier output');
    mkdirSync(at('inner'));
    symlinkSync('there', at('to-there'));
    symlinkSync('../to-nothing', at('inner/link'));
    symlinkSync('nothing', at('to-nothing'));
    for (const [output, path] of [
      ['new', 'new'],
      ['there', 'there'],
      ['to-there', 'there'],
      ['inner/link', 'nothing'],
    ] as const) {
      expect(findOutput(at(output), input)).toBe(join(real, path));
    }
  });

  it('is never the input, by whatever name', () => {
    symlinkSync('requests.jsonl', at('link'));
    linkSync(input, at('hard-link'));
    for (const output of [
      input,
      `${folder}/../${basename(folder)}/requests.jsonl`,
      at('link'),
      at('hard-link'),
    ]) {
      expect(() => findOutput(output, input)).toThrow(
        `--output-file ${output} would write over the requests`,
      );
    }
    for (const beside of ['journal', 'journal.lock', 'unfinished']) {
      writeFileSync(at(`out.${beside}`), '{}\n');
      expect(() => findOutput(at('out'), at(`out.${beside}`))).toThrow(`out.${beside}: give another file`);
    }
  });

  it('is never something else than a file', () => {
    execFileSync('mkfifo', [at('pipe')]);
    symlinkSync('/dev/null', at('device'));
    for (const output of [folder, at('pipe'), at('device')]) {
      expect(() => findOutput(output, input)).toThrow(`--output-file ${output} is a folder, pipe or device`);
    }
    expect(() => findOutput('-', input)).toThrow('--output-file - is no file');
    symlinkSync('circle', at('circle'));
    expect(() => findOutput(at('circle'), input)).toThrow('circle cannot be written: ELOOP');
    expect(() => findOutput(at('none/out'), input)).toThrow('none/out cannot be written: ENOENT');
  });
});
