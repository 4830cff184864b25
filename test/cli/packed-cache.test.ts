// --packed-cache over real processes that share one folder.

import { readdirSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { needsNative } from '../helpers/needs.ts';
import { untilPacked } from '../helpers/packed-files.ts';
import { type SvcProcess, startServeProcess } from '../helpers/svc-process.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { until } from '../helpers/until.ts';

const newFolder = temporaryFolders();
const running: SvcProcess[] = [];
afterAll(() => Promise.all(running.map((svc) => svc.stop())));

const answer = z.object({ choices: z.tuple([z.object({ text: z.string() })]) });

async function start(model: string, folder: string): Promise<SvcProcess> {
  const svc = await startServeProcess([model, '--packed-cache', folder]);
  running.push(svc);
  return svc;
}

async function complete({ url }: SvcProcess): Promise<string> {
  const body = JSON.stringify({ prompt: [5, 6, 7], max_tokens: 12, temperature: 1, seed: 3 });
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}/v1/completions`, { method: 'POST', headers, body });
  return answer.parse(await response.json()).choices[0].text;
}

describe('svc serve --packed-cache', needsNative, () => {
  it('serves the same answers from processes that start at once, and from a later one that packs nothing', async () => {
    const [model, folder] = [newFolder(), newFolder()];
    writeTinyModel(model, { dtype: 'bf16' });
    const together = await Promise.all([start(model, folder), start(model, folder)]);
    const answers = await Promise.all(together.map(complete));
    expect(answers[0]).not.toBe('');
    await untilPacked(folder, 1);
    for (const svc of together) expect(await svc.stop()).toBe(0);
    expect(readdirSync(folder)).toEqual([expect.stringMatching(/^[0-9a-f]{32}\.packed$/)]);
    const later = await start(model, folder);
    expect(new Set([...answers, await complete(later)]).size).toBe(1);
    await until(() => later.stderr().includes('address'));
    expect(later.stderr()).toContain('packed weights from the cache');
    expect(later.stderr()).not.toContain('packed again');
  });

  // In /proc nobody can make a folder, root included.
  it.each(['/proc/svc', '/proc/svc/packed'])('warns that %s cannot be made, and serves', async (folder) => {
    const model = newFolder();
    writeTinyModel(model, { dtype: 'bf16' });
    const svc = await start(model, folder);
    await until(() => svc.stderr().includes('WARN'));
    expect(svc.stderr()).toMatch(/packed cache: ENOENT.*mkdir '\/proc\/svc'; the next start packs/);
    expect(await complete(svc)).not.toBe('');
  });
});
