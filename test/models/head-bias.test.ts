// An output head with a bias, where only some of its logits are computed, or none.

import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import { BY_FILES, type PoolingChoice } from '../../src/models/pooling/pooling-config.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { RefTensor } from '../../src/ops/reference/ref-tensor.ts';
import { openBackend } from '../helpers/backends.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { ModelSession } from './model-session.ts';

const newFolder = temporaryFolders();
const PHI = fileURLToPath(new URL('../fixtures/goldens/phi', import.meta.url));
const IDS = [3, 50, 17, 80, 9];
const [NO, YES] = [5, 60];

/** What the last token has: logits, or in their place hidden states. */
async function computed(folder: string, choice: PoolingChoice) {
  const ops = openBackend('reference');
  const warnings: string[] = [];
  const model = await loadModel(openModelSource(folder), ops, {
    dtype: 'float32',
    maxModelLen: null,
    choice,
    onWarning: (message) => void warnings.push(message),
  });
  const last = new ModelSession(ops, model, IDS.length).run(IDS, 1);
  return { ops, model, last, warnings };
}

describe('an output head with a bias', () => {
  it('scores by the logits that it has for two tokens', async () => {
    const folder = newFolder();
    cpSync(PHI, folder, { recursive: true });
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ model: { vocab: { no: NO, yes: YES } } }));
    const { last: logits } = await computed(PHI, BY_FILES);
    const { ops, model, last, warnings } = await computed(folder, { ...BY_FILES, convert: 'classify' });
    const scored = model.poolingHead!(ops, new RefTensor(last, 1, last.length, 'f32'));
    expect([...ops.read(scored)]).toEqual([logits[YES], logits[NO]]);
    expect(warnings).toEqual([]);
  });

  it('is not missed by a model that makes vectors', async () => {
    const { warnings } = await computed(PHI, { ...BY_FILES, convert: 'embed' });
    expect(warnings).toEqual([]);
  });
});
