import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { readGivenTemplate } from '../../src/tokenizer/given-template.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-template-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function fileWith(source: string): Promise<string> {
  const path = join(folder, 'mine.jinja');
  await writeFile(path, source);
  return path;
}

describe('--chat-template', () => {
  it('takes a file', async () => {
    expect(await readGivenTemplate(await fileWith('{{ messages }}\n'))).toBe('{{ messages }}\n');
  });

  it('takes the text itself, in which a line break is written as \\n', async () => {
    expect(await readGivenTemplate('{{ messages }}\\n')).toBe('{{ messages }}\n');
    expect(await readGivenTemplate("a\n{{ '\\n' }}")).toBe("a\n{{ '\\n' }}");
  });

  it('says that a file is missing, and what else it could have been', async () => {
    const missing = readGivenTemplate(join(folder, 'absent.jinja'));
    await expect(missing).rejects.toThrow(ConfigError);
    await expect(missing).rejects.toThrow(
      /^--chat-template: expected a file with a chat template, or the template itself: ENOENT.*absent\.jinja/,
    );
  });

  it('names file, line and reason of a template that does not compile', async () => {
    const path = await fileWith('a\n{% if %}');
    await expect(readGivenTemplate(path)).rejects.toThrow(
      `--chat-template: the template does not compile: ${path}, line 2: unexpected %}, expected an expression`,
    );
    await expect(readGivenTemplate('{% if %}')).rejects.toThrow(
      '--chat-template: the template does not compile: line 1: unexpected %}, expected an expression',
    );
  });
});
