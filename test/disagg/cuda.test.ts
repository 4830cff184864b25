// Disaggregated serving where P and D compute on GPUs, over the emulated driver: the same bytes as one instance.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SendType } from '../../src/config/kv-transfer-config.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { Cluster, readMetrics } from '../helpers/cluster.ts';
import { needsCudaEmulator } from '../helpers/cuda-emulator.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { until } from '../helpers/until.ts';
import { answersOf, type MixedRequest } from './mixed-requests.ts';

/** Over which `url` has sent blocks. */
async function transportsOf(url: string): Promise<string[]> {
  const sent = [...(await readMetrics(url))].filter(([name]) =>
    name.startsWith('svc:kv_transfer_sent_bytes_total{'),
  );
  return sent.flatMap(([name, bytes]) => (bytes > 0 ? [/transport="([^"]+)"/.exec(name)?.[1] ?? ''] : []));
}

const CUDA = ['--device', 'cuda', '--dtype', 'bfloat16', '--kv-cache-memory-bytes', '4e6'];
/** Requests with few tokens: an emulated GPU is slow. */
const REQUESTS: readonly MixedRequest[] = Array.from({ length: 10 }, (_, index) => ({
  path: '/v1/completions',
  body: {
    prompt: Array.from({ length: 4 + 9 * index }, (_, at) => (index * 31 + at * 7) % 200),
    max_tokens: 3,
    temperature: index % 2,
    seed: index,
    logprobs: 2,
    ...(index === 3 && { n: 2 }),
  },
}));

describe('P and D on GPUs', needsCudaEmulator, () => {
  let folder: string;
  let expected: unknown[];
  beforeAll(async () => {
    folder = mkdtempSync(join(os.tmpdir(), 'svc-cuda-disagg-'));
    writeTinyModel(folder, { architecture: 'Qwen3ForCausalLM', seed: 5 });
    const plain = await startServeProcess([folder, ...CUDA]);
    expected = await answersOf(plain.url, REQUESTS, 4).finally(() => plain.stop());
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const start = (sendType: SendType, more: { consumerArgs?: string[]; transports?: string[] } = {}) =>
    Cluster.start({
      model: folder,
      producers: 1,
      consumers: (more.transports ?? ['auto']).map((transport) => ({ extra: { transport } })),
      // Of the GPU's memory, where blocks come from GPUs.
      kvTransfer: { kv_buffer_size: 4e6 },
      sendType,
      // Short chunks, so that prompts leave in pieces.
      serveArgs: ['--max-num-batched-tokens', '40'],
      producerArgs: CUDA,
      consumerArgs: more.consumerArgs ?? CUDA,
      proxyArgs: ['--prefill-threshold', '0'],
    });

  it.each<[SendType, string[], string[]]>([
    ['PUT_ASYNC', ['tcp', 'auto'], ['tcp', 'cuda-ipc']],
    ['PUT', ['shm', 'nccl'], ['shm', 'nccl']],
    ['GET', ['auto'], ['cuda-ipc']],
  ])('answer as one instance does, with %s over %j', async (sendType, transports, used) => {
    const cluster = await start(sendType, { transports });
    try {
      expect(await answersOf(cluster.url, REQUESTS, 4)).toEqual(expected);
      for (const { url } of cluster.consumers) {
        const metrics = await readMetrics(url);
        expect(metrics.get('svc:kv_transfer_loaded_tokens_total')).toBeGreaterThan(0);
        expect(metrics.get('svc:kv_transfer_recomputed_total')).toBe(0);
      }
      const p = cluster.producers[0]!;
      expect(await transportsOf(p.url)).toEqual(used);
      for (const transport of used)
        expect(p.stderr()).toMatch(new RegExp(`KV blocks go to 127.0.0.1:\\d+ over ${transport}`));
    } finally {
      await cluster.stop();
    }
  });

  it('have blocks of other sizes', async () => {
    const cluster = await start('PUT_ASYNC', { consumerArgs: [...CUDA, '--block-size', '64'] });
    try {
      expect(await answersOf(cluster.url, REQUESTS, 4)).toEqual(expected);
      const [p, d] = [cluster.producers[0]!, cluster.consumers[0]!];
      const metrics = await readMetrics(d.url);
      expect(metrics.get('svc:kv_transfer_loaded_tokens_total')).toBeGreaterThan(0);
      expect(metrics.get('svc:kv_transfer_recomputed_total')).toBe(0);
      expect(await transportsOf(p.url)).toEqual(['cuda-ipc']);
    } finally {
      await cluster.stop();
    }
  });

  it('compute the prompts again whose P is killed', async () => {
    const cluster = await start('PUT_ASYNC');
    try {
      const answers = answersOf(cluster.url, REQUESTS, 4);
      const [d] = cluster.consumers;
      await until(
        async () => ((await readMetrics(d!.url)).get('svc:kv_transfer_received_bytes_total') ?? 0) > 0,
      );
      cluster.producers[0]?.child.kill('SIGKILL');
      expect(await answers).toEqual(expected);
    } finally {
      await cluster.stop();
    }
  });

  it('do not take blocks of a processor', async () => {
    const cluster = await start('PUT_ASYNC', { consumerArgs: ['--device', 'cpu', '--dtype', 'bfloat16'] });
    try {
      for (const answer of await answersOf(cluster.url, REQUESTS.slice(0, 2), 2)) {
        expect(answer).toMatchObject({ status: 200 });
      }
      const [d] = cluster.consumers;
      expect((await readMetrics(d!.url)).get('svc:kv_transfer_loaded_tokens_total')).toBe(0);
      expect(cluster.producers[0]!.stderr()).toMatch(
        /no KV blocks are exchanged with .*: the instruction set differs: /,
      );
    } finally {
      await cluster.stop();
    }
  });
});
