// Instances whose GPU hangs: they beat on, and answer nothing. They end, and others answer in their place.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { Cluster, type Instance, isAlive } from '../helpers/cluster.ts';
import { needsCudaEmulators } from '../helpers/cuda-emulator.ts';
import { until } from '../helpers/until.ts';
import { answersOf, type MixedRequest } from './mixed-requests.ts';

const REQUESTS: readonly MixedRequest[] = Array.from({ length: 6 }, (_, index) => ({
  path: '/v1/completions',
  body: {
    prompt: Array.from({ length: 120 + index }, (_, at) => (index * 31 + at * 7) % 200),
    max_tokens: 8,
    temperature: 1,
    seed: index,
  },
}));

describe('an instance whose GPU hangs', needsCudaEmulators, () => {
  let folder: string;
  let cluster: Cluster;
  let expected: unknown[];
  beforeAll(async () => {
    folder = mkdtempSync(join(os.tmpdir(), 'svc-cuda-hang-'));
    const model = join(folder, 'model');
    writeTinyModel(model, { architecture: 'Qwen3ForCausalLM', seed: 5 });
    const cuda = ['--device', 'cuda', '--dtype', 'bfloat16', '--kv-cache-memory-bytes', '4e6'];
    cluster = await Cluster.start({
      model,
      producers: 2,
      consumers: 2,
      kvTransfer: { kv_buffer_size: 4e6 },
      serveArgs: [...cuda, '--execute-model-timeout', '4'],
      env: { SVC_EMULATED_HANG: join(folder, 'hang') },
    });
    expected = await answersOf(cluster.url, REQUESTS, 2);
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(folder, { recursive: true });
  });

  it.each(['producers', 'consumers'] as const)('ends, and others of the %s answer', async (kind) => {
    const [first] = cluster[kind];
    hang(first!);
    const answers = answersOf(cluster.url, REQUESTS, REQUESTS.length);
    await until(() => !isAlive(first!));
    expect(await answers).toEqual(expected);
    expect(first!.stderr()).toMatch(/a step has taken longer than 4 seconds/);
  });

  function hang({ child }: Instance): void {
    writeFileSync(join(folder, `hang.${child.pid}`), '');
  }
});
