// A program whose GPU hangs: it is told, and may go on without the engine.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { EngineHangsError, LLM } from '../../src/index.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { needsCudaEmulators } from '../helpers/cuda-emulator.ts';

it('a program is told that its GPU hangs, and can close the engine', needsCudaEmulators, async () => {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-cuda-hang-'));
  const hang = join(folder, 'hang');
  vi.stubEnv('SVC_EMULATED_HANG', hang);
  try {
    writeTinyModel(join(folder, 'model'));
    const llm = new LLM({
      model: join(folder, 'model'),
      device: 'cuda',
      dtype: 'bfloat16',
      kvCacheMemoryBytes: 4e6,
      executeModelTimeout: 2,
    });
    const answer = () => llm.generate(['a dog'], { max_tokens: 4 });
    expect(await answer()).toHaveLength(1);
    writeFileSync(`${hang}.${process.pid}`, '');
    await expect(answer()).rejects.toThrow(EngineHangsError);
    await expect(answer()).rejects.toThrow(/^the engine hangs: a step has taken longer than 2 seconds/);
    const since = performance.now();
    await llm.close();
    expect(performance.now() - since).toBeLessThan(15_000);
  } finally {
    // The emulated GPU goes on, and its thread ends.
    rmSync(folder, { recursive: true });
    vi.unstubAllEnvs();
  }
});
