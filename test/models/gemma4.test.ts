// What releases of Gemma 4 have in their checkpoints beside what is computed with.

import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { readSafetensors } from '../../src/models/source/safetensors.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type TensorShape, writeSafetensors } from '../fixtures/safetensors-writer.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { goldenFolder } from './golden-cases.ts';

const newFolder = temporaryFolders();
const LAYERS = 'model.language_model.layers';

/** The small golden, whose layers 2 and 3 see the keys of 0 and 1, with more tensors; and what its load warns of. */
async function warningsWith(more: readonly TensorShape[]): Promise<string[]> {
  const folder = newFolder();
  cpSync(goldenFolder('gemma4-small'), folder, { recursive: true });
  const path = join(folder, 'model.safetensors');
  const file = readFileSync(path);
  const own = [...readSafetensors(path)].map(([name, { shape, byteOffset, byteLength }]) => {
    return { name, shape, bytes: new Uint8Array(file.subarray(byteOffset, byteOffset + byteLength)) };
  });
  const bytesOf = new Map(own.map(({ name, bytes }) => [name, bytes]));
  const sizeOf = (shape: readonly number[]) => shape.reduce((product, length) => product * length, 1);
  writeSafetensors(path, [...own, ...more], 'bf16', ({ name, shape }) => [
    bytesOf.get(name) ?? new Uint8Array(2 * sizeOf(shape)),
  ]);
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  await loadModel(openModelSource(folder), new ReferenceOps(), { dtype: 'auto', maxModelLen: 32, onWarning });
  return warnings;
}

describe('a checkpoint of Gemma 4', () => {
  it('may have keys and values for layers that see those of others', async () => {
    const names = ['k_proj', 'v_proj', 'k_norm', 'v_norm'].map(
      (name) => `${LAYERS}.2.self_attn.${name}.weight`,
    );
    expect(await warningsWith(names.map((name) => ({ name, shape: [4, 4] })))).toEqual([]);
  });

  it('is refused with values of a layer that makes them of nothing', async () => {
    const own = [{ name: `${LAYERS}.0.self_attn.v_norm.weight`, shape: [8] }];
    await expect(warningsWith(own)).rejects.toThrow(
      /layers\.0\.self_attn\.v_norm\.weight is in the checkpoint/,
    );
  });

  it('has a part that sees images, of whose tensors the load warns, keys of theirs among them', async () => {
    const name = 'model.vision_tower.encoder.layers.2.self_attn.k_proj.weight';
    expect(await warningsWith([{ name, shape: [4, 4] }])).toEqual([
      expect.stringContaining(`these tensors are not used: ${name}`),
    ]);
  });
});
