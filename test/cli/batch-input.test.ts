// The lines of a batch file, as bytes that anything may have written.

import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readBatch } from '../../src/cli/run-batch/batch-input.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const path = temporaryFolders()();

function request(id: string, prompt: string): string {
  return JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/completions', body: { prompt } });
}

function read(...parts: readonly (string | Uint8Array)[]) {
  writeFileSync(path, Buffer.concat(parts.map((part) => Buffer.from(part))));
  return [...readBatch(path)];
}

describe('the lines of a batch', () => {
  it('are wrong where their bytes are no UTF-8, and only those', () => {
    const [before = '', after = ''] = request('a', '|').split('|');
    const wrong = [before, Uint8Array.of(0xff), after, '\n'];
    const lines = read(...wrong, ...wrong, request('b', 'ä€😀'), '\n');
    expect(lines.map(({ customId, request, fault }) => [customId, request?.body, fault])).toEqual([
      [null, undefined, expect.stringContaining('line 1: its bytes are not valid UTF-8')],
      [null, undefined, expect.stringContaining('line 2: its bytes are not valid UTF-8')],
      ['b', '{"prompt":"ä€😀"}', null],
    ]);
    expect(new Set(lines.map(({ digest }) => digest)).size).toBe(3);
  });

  it('are wrong where they are nested more deeply than can be written again, and stop no other', () => {
    const nested = request('a', '|').replace('"|"', `${'['.repeat(50_000)}${']'.repeat(50_000)}`);
    const lines = read(nested, '\n', request('b', 'x'));
    expect(lines.map(({ customId, fault }) => [customId, fault])).toEqual([
      ['a', 'line 1: body is nested too deeply'],
      ['b', null],
    ]);
  });

  it('have bodies as they were written, numbers too', () => {
    const body = '{"prompt": "x", "user": 1.0, "seed": 12345678901234567890}';
    const [line] = read(request('a', 'x').replace(/"body":.*/, `"body": ${body}}`));
    expect(line?.request?.body).toBe(body);
  });

  it('end where JSON lets them end: other separators belong to texts', () => {
    const [one, two] = [request('a', 'x\u2028y'), request('b', 'z')];
    for (const text of [`${one}\n${two}\n`, `\ufeff${one}\r\n\r\n${two}`]) {
      expect(read(text).map((line) => line.request?.body)).toEqual([
        '{"prompt":"x\u2028y"}',
        '{"prompt":"z"}',
      ]);
    }
  });

  it('are the same wherever they stand, and whatever line break they have', () => {
    const line = request('a', 'x');
    const digests = [line, `\n${line}\n`, `${line}\r\n`].map((text) => read(text)[0]?.digest);
    expect(new Set(digests).size).toBe(1);
  });
});
