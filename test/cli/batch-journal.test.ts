// The journal of a batch: what it finds of an earlier one.

import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BatchJournal } from '../../src/cli/run-batch/batch-journal.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const path = temporaryFolders()();

function filled(texts: readonly string[]): void {
  const journal = BatchJournal.open(path, 'm');
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
          const journal = BatchJournal.open(path, 'm');
          expect(journal.numEntries).toBe(numWhole);
          journal.append('next', { text: 'after' });
          const read = [...texts.slice(0, numWhole).keys(), 'next'].map((digest) =>
            JSON.parse(journal.read(`${digest}`)),
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
    const journal = BatchJournal.open(path, 'm');
    expect(texts.map((_, i) => JSON.parse(journal.read(`${i}`)))).toEqual(texts.map((text) => ({ text })));
    journal.close();
  });

  it('begins anew where it finds no result, whatever the file holds', () => {
    for (const text of ['', 'not a journal', '{"model":"other"}\n', '{"x":1}\n{"of":"a","result":1}\n']) {
      writeFileSync(path, text);
      const journal = BatchJournal.open(path, 'm');
      expect([journal.numEntries, readFileSync(path, 'utf8')]).toEqual([0, '{"model":"m"}\n']);
      journal.close();
    }
  });

  it('says which file can no longer be written', () => {
    const journal = BatchJournal.open(path, 'm');
    journal.close();
    expect(() => journal.append('late', {})).toThrow(`--output-file: ${path} cannot be written: EBADF`);
  });
});
