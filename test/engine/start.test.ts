// What the engine says of a configuration that does not fit, before it has read a weight.

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineClient } from '../../src/engine/engine-client.ts';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { type EngineThread, spawnEngineThread } from '../../src/engine/spawn-engine.ts';
import { ConfigError, EngineDeadError, ModelLoadError } from '../../src/errors.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

/** Any weight that is read refuses the model. */
function modelOfBrokenWeights(): string {
  const folder = newFolder();
  writeTinyModel(folder);
  const path = join(folder, 'model.safetensors');
  const bytes = readFileSync(path);
  bytes.fill(0xff, 8 + Number(bytes.readBigUInt64LE()));
  writeFileSync(path, bytes);
  return folder;
}

function start(modelPath: string, config: Partial<EngineConfig> = {}, warnings: string[] = []) {
  const defaults = { ...ENGINE_DEFAULTS, kvCacheMemoryBytes: 2 ** 20 };
  return InferenceEngine.start(
    { ...defaults, ...config, modelPath },
    { onWarning: (message) => warnings.push(message) },
  );
}

describe.each(availableBackends)('an engine that starts on %s', (device) => {
  it('refuses weights that are not numbers', async () => {
    const starting = start(modelOfBrokenWeights(), { device });
    await expect(starting).rejects.toThrow(ModelLoadError);
    await expect(starting).rejects.toThrow('tensor model.embed_tokens.weight');
  });

  it('says why it could not start, however late that is heard', async () => {
    const starting = start(modelOfBrokenWeights(), { device });
    // Until the thread has ended: its last words and its end are told at once then.
    await new Promise(setImmediate);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
    await expect(starting).rejects.toThrow(ModelLoadError);
  });

  it('warns of a tokenizer with ids that the model does not know', async () => {
    const folder = newFolder();
    writeTinyModel(folder, { config: { vocab_size: 64 } });
    const warnings: string[] = [];
    const engine = await start(folder, { device }, warnings);
    expect(warnings).toEqual([
      expect.stringMatching(
        /^the tokenizer has ids up to \d+, and the model knows those below 64 .* are refused/,
      ),
    ]);
    await engine.close();
  });

  it('warns of a tokenizer that has far fewer ids than the model, and of an end token that it has not', async () => {
    const folder = newFolder();
    writeTinyModel(folder, {
      config: { vocab_size: 1024 },
      generationConfig: { eos_token_id: [1, 99999999] },
    });
    const warnings: string[] = [];
    const engine = await start(folder, { device }, warnings);
    expect(warnings).toEqual([
      expect.stringMatching(
        /^the tokenizer has ids up to 319, .* below 1024 .* is it the tokenizer of another model\?$/,
      ),
      expect.stringMatching(/^no answer can end with the tokens 99999999 \(eos_token_id\), .* below 1024 /),
    ]);
    await engine.close();
  });

  it('takes a vocabulary that is a little longer than the tokenizer as it is', async () => {
    const folder = newFolder();
    writeTinyModel(folder, { config: { vocab_size: 352 } });
    const warnings: string[] = [];
    const engine = await start(folder, { device }, warnings);
    expect(warnings).toEqual([]);
    await engine.close();
  });

  it('says before it reads a weight that the KV cache is too small, and what would fit', async () => {
    const starting = start(modelOfBrokenWeights(), { device, kvCacheMemoryBytes: 2 ** 17 });
    await expect(starting).rejects.toThrow(ConfigError);
    await expect(starting).rejects.toThrow(/lower --max-model-len to at most \d+$/);
  });

  it('says that a field of generation_config.json is unknown before it says what weights are broken', async () => {
    const starting = start(modelOfBrokenWeights(), { device, overrideGenerationConfig: { topk: 3 } });
    await expect(starting).rejects.toThrow(ConfigError);
    await expect(starting).rejects.toThrow('unknown field topk; did you mean top_k?');
  });
});

describe('an engine with more threads than processors', needsNative, () => {
  it('starts, and warns', async () => {
    const folder = newFolder();
    writeTinyModel(folder);
    const warnings: string[] = [];
    const engine = await start(folder, { numThreads: availableParallelism() + 1 }, warnings);
    await engine.close();
    expect(warnings).toEqual([
      expect.stringContaining(`--num-threads ${availableParallelism() + 1} is more than`),
    ]);
  });
});

describe('an engine thread that ends before it has its configuration', () => {
  const startOn = (thread: EngineThread) => {
    const folder = newFolder();
    writeTinyModel(folder);
    return InferenceEngine.start({ ...ENGINE_DEFAULTS, modelPath: folder }, { thread });
  };

  it('fails the start at once where it has ended already', async () => {
    const thread = spawnEngineThread();
    await thread.worker.terminate();
    await expect(startOn(thread)).rejects.toThrow(EngineDeadError);
  });

  it('fails the start at once where it ends meanwhile', async () => {
    const thread = spawnEngineThread();
    const starting = startOn(thread);
    void thread.worker.terminate();
    await expect(starting).rejects.toThrow('the engine has died while it was starting: its thread has ended');
  });
});

describe('an engine thread that is stuck in native code', () => {
  it('does not hold up who gives up its start', async () => {
    const pipe = newFolder();
    execFileSync('mkfifo', [pipe]);
    const fd = openSync(pipe, 'r+');
    const { worker, ...thread } = spawnEngineThread();
    void worker.terminate();
    const code = `
      require('node:worker_threads').parentPort.postMessage('about to be');
      require('node:fs').readSync(${fd}, Buffer.alloc(1));`;
    const stuck = new Worker(code, { eval: true, execArgv: [] });
    const ended = once(stuck, 'exit').then(() => new Error('it has ended'));
    // What it waits for comes: it ends.
    onTestFinished(async () => {
      writeSync(fd, '.');
      await ended;
      closeSync(fd);
    });
    await once(stuck, 'message');
    // Until then it can be ended like any other.
    await setTimeout(500);
    const giveUp = new AbortController();
    const options = { thread: { ...thread, worker: stuck, ended } };
    const starting = EngineClient.start(ENGINE_DEFAULTS, options, giveUp.signal);
    giveUp.abort();
    await expect(starting).rejects.toThrow('the start of the engine was given up');
  }, 30_000);
});
