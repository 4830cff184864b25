// A server whose model is cut over two ranks.

import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { modelFolder } from '../../src/models/model-folder.ts';
import { answersOf, mixedRequests } from '../disagg/mixed-requests.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { needsNative } from '../helpers/needs.ts';
import { type SvcProcess, startServeProcess } from '../helpers/svc-process.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { bodyOf, startTestServer } from './test-server.ts';

const newFolder = temporaryFolders();
const started: SvcProcess[] = [];
afterEach(() => {
  for (const { child } of started.splice(0)) child.kill('SIGKILL');
});

describe('a server with two ranks', needsNative, () => {
  it('gives 200 mixed requests the bytes that one rank gives', async () => {
    const requests = mixedRequests(200, 13);
    const folder = await modelFolder('');
    const answers = [];
    for (const tensorParallelSize of [1, 2] as const) {
      const svc = await startTestServer({ folder, engine: { tensorParallelSize, numThreads: 2 } });
      answers.push(await answersOf(svc.url, requests, 16));
      const { engine } = await bodyOf(await fetch(`${svc.url}/version`));
      expect(engine).toMatchObject({ ranks: { length: tensorParallelSize } });
      await svc.close();
    }
    for (const [index, answer] of answers[1]!.entries()) {
      expect(answer, JSON.stringify(requests[index])).toEqual(answers[0]![index]);
    }
    // Ranks that get no core wait for each other.
  }, 240_000);

  it('tells what each rank has, and ends with an error that names the rank that ends', async () => {
    const hook = new URL('../helpers/rank-killer.mjs', import.meta.url).href;
    const args = [await modelFolder(''), '-tp', '2', '--num-threads', '2', '--no-ui'];
    const svc = await startServeProcess(args, { NODE_OPTIONS: `--import=${hook}` });
    started.push(svc);
    await expect.poll(svc.stderr).toMatch(/^ {2}backend +cpu: 2 ranks: .*, 1 thread \(/m);
    expect(svc.stderr()).toMatch(/^ {2}memory +2 times [\d.]+ MiB of weights and [\d.]+ .iB of KV cache$/m);
    const exited = once(svc.child, 'exit');
    const stream = await fetch(`${svc.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'Once', max_tokens: 1000, ignore_eos: true, stream: true }),
    });
    svc.child.kill('SIGUSR2');
    expect(await stream.text()).toMatch(/"error":.*The engine of this server has stopped/);
    const [code] = await exited;
    expect(code).toBe(1);
    expect(svc.stderr()).toMatch(/the engine has died: .*rank 1(: its thread)? has ended/);
  });

  it('ends with that error where the rank ends while an adapter is loaded', async () => {
    const hook = new URL('../helpers/adapter-rank-killer.mjs', import.meta.url).href;
    const [folder, lora_path] = [newFolder(), newFolder()];
    writeTinyModel(folder);
    writeTinyAdapter(lora_path);
    const args = [folder, '-tp', '2', '--num-threads', '2', '--no-ui', '--enable-lora'];
    const env = { NODE_OPTIONS: `--import=${hook}`, SVC_ALLOW_RUNTIME_LORA_UPDATING: '1' };
    const svc = await startServeProcess(args, env);
    started.push(svc);
    const exited = once(svc.child, 'exit');
    const loading = fetch(`${svc.url}/v1/load_lora_adapter`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ lora_name: 'red', lora_path }),
    });
    // It gets that error, or its connection is closed first.
    await loading.catch(() => {});
    expect(await exited).toEqual([1, null]);
    expect(svc.stderr()).toMatch(/the engine has died: .*rank 1: its thread has ended/);
  });
});
