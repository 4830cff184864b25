// The journal of a batch: what it finds of an earlier one.

import { existsSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BatchJournal } from '../../src/cli/run-batch/batch-journal.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const path = temporaryFolders()();

function open(): BatchJournal {
  const journal = BatchJournal.open(path);
  journal.continueWith('m');
  return journal;
}

function filled(texts: readonly string[]): void {
  const journal = open();
  for (const [i, text] of texts.entries()) journal.append(`${i}`, { text });
  journal.close();
}

describe('the journal of a batch', () => {
  it('has all results up to the place where it was cut off', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'grapheme' }), { minLength: 1, maxLength: 5 }),
        fc.nat(),
        (texts, at) => {
          writeFileSync(path, '');
          filled(texts);
          truncateSync(path, at % (statSync(path).size + 1));
          const numWhole = Math.max(0, readFileSync(path).filter((byte) => byte === 0x0a).length - 1);
          const journal = open();
          expect(journal.numEntries).toBe(numWhole);
          journal.append('next', { text: 'after' });
          const read = [...texts.slice(0, numWhole).keys(), 'next'].map((digest) =>
            journal.read(`${digest}`),
          );
          journal.close();
          expect(read).toEqual([...texts.slice(0, numWhole), 'after'].map((text) => ({ text })));
        },
      ),
    );
  });

  it('finds results that are longer than what it reads at a time', () => {
    writeFileSync(path, '');
    const texts = ['ä'.repeat(600_001), '', '€'.repeat(1_000_000), 'end'];
    filled(texts);
    const journal = open();
    expect(texts.map((_, i) => journal.read(`${i}`))).toEqual(texts.map((text) => ({ text })));
    journal.close();
  });

  it('begins anew where it finds no result', () => {
    for (const text of [
      '',
      '{"finger',
      '{"fingerprint":"other"}\n',
      '{"fingerprint":"other"}\n{"of":"cut o',
    ]) {
      writeFileSync(path, text);
      const journal = open();
      expect([journal.numEntries, readFileSync(path, 'utf8')]).toEqual([0, '{"fingerprint":"m"}\n']);
      journal.close();
      expect(existsSync(path)).toBe(false);
    }
  });

  it('takes no results of another model, and leaves them as they are', () => {
    const text = '{"fingerprint":"other"}\n{"of":"a","result":1}\n';
    writeFileSync(path, text);
    const journal = BatchJournal.open(path);
    expect(() => journal.continueWith('m')).toThrow(`${path} has answers of other, not of m`);
    journal.close();
    expect(readFileSync(path, 'utf8')).toBe(text);
  });

  it('leaves a file that is no journal as it is', () => {
    for (const text of ['notes\n', '\n', '{"x":1}\n{"of":"a","result":1}\n']) {
      writeFileSync(path, text);
      expect(open).toThrow(`${path} is needed to keep answers until all are there, and is something else`);
      expect(readFileSync(path, 'utf8')).toBe(text);
    }
    writeFileSync(path, '');
  });

  it('says which file can no longer be written', () => {
    const journal = open();
    journal.close();
    expect(() => journal.append('late', {})).toThrow(`--output-file: ${path} cannot be written: EBADF`);
  });
});
