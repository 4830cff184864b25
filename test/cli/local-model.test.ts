import { expect, it } from 'vitest';
import { startLocalModel } from '../../src/cli/local-model.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

it('a model that nobody else has takes all that is sent to it', async () => {
  const folder = newFolder();
  writeTinyModel(folder, { seed: 1 });
  const model = await startLocalModel(new Map([['model', { value: folder, origin: 'model' }]]));
  const { url, apiKey } = model.client;
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` };
  const body = JSON.stringify({ prompt: 'Once', n: 128, max_tokens: 1 });
  const asked = Array.from({ length: 60 }, () =>
    fetch(`${url}/completions`, { method: 'POST', headers, body }),
  );
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  await model.close();
  expect(new Set(statuses)).toEqual(new Set([200]));
});
