// Disaggregated serving where P and D compute on GPUs, over the emulated driver: the same bytes as one instance.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { SendType } from '../../src/config/kv-transfer-config.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { Cluster, readMetrics, transportsOf } from '../helpers/cluster.ts';
import { needsCudaEmulator } from '../helpers/cuda-emulator.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { until } from '../helpers/until.ts';
import { disconnectClients } from './client-disconnects.ts';
import { answersOf, type MixedRequest } from './mixed-requests.ts';

/** What of a cluster is not as usual. */
interface Changes {
  readonly producers?: number;
  readonly producerArgs?: string[];
  readonly consumerArgs?: string[];
  readonly transports?: string[];
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

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);

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

  const start = (sendType: SendType, more: Changes = {}) =>
    Cluster.start({
      model: folder,
      producers: more.producers ?? 1,
      consumers: (more.transports ?? ['auto']).map((transport) => ({ extra: { transport } })),
      // Of the GPU's memory, where blocks come from GPUs.
      kvTransfer: { kv_buffer_size: 4e6 },
      sendType,
      // Short chunks, so that prompts leave in pieces.
      serveArgs: ['--max-num-batched-tokens', '40'],
      producerArgs: more.producerArgs ?? CUDA,
      consumerArgs: more.consumerArgs ?? CUDA,
      proxyArgs: ['--prefill-threshold', '0'],
    });

  /** The answers are those of one instance, and no consumer computes a prompt. */
  const expectBlocksCome = async (cluster: Cluster, count = REQUESTS.length) => {
    expect(await answersOf(cluster.url, REQUESTS.slice(0, count), 4)).toEqual(expected.slice(0, count));
    for (const { url } of cluster.consumers) {
      const metrics = await readMetrics(url);
      expect(metrics.get('svc:kv_transfer_loaded_tokens_total')).toBeGreaterThan(0);
      expect(metrics.get('svc:kv_transfer_recomputed_total')).toBe(0);
    }
  };

  const receivedBy = async ({ url }: { readonly url: string }) =>
    (await readMetrics(url)).get('svc:kv_transfer_received_bytes_total') ?? 0;

  it.each<[SendType, string[], string[]]>([
    ['PUT_ASYNC', ['tcp', 'auto'], ['tcp', 'cuda-ipc']],
    ['PUT', ['shm', 'auto', 'nccl'], ['shm', 'cuda-ipc', 'nccl']],
    ['GET', ['auto', 'nccl'], ['cuda-ipc', 'nccl']],
  ])('answer as one instance does, with %s over %j', async (sendType, transports, used) => {
    const cluster = await start(sendType, { transports });
    try {
      await expectBlocksCome(cluster);
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
      await expectBlocksCome(cluster);
      expect(await transportsOf(cluster.producers[0]!.url)).toEqual(['cuda-ipc']);
    } finally {
      await cluster.stop();
    }
  });

  describe('of several ranks or stages', () => {
    const RANKS = [...CUDA, '--tensor-parallel-size', '2'];
    const STAGES = [...CUDA, '--pipeline-parallel-size', '2'];
    beforeAll(() => void vi.stubEnv('SVC_EMULATED_GPUS', '2'));
    afterAll(() => void vi.unstubAllEnvs());

    it.each<[string, Changes, string[]]>([
      ['P has two ranks', { producerArgs: RANKS, transports: ['tcp', 'auto'] }, ['tcp', 'cuda-ipc']],
      ['both have two stages', { producerArgs: STAGES, consumerArgs: STAGES }, ['cuda-ipc']],
    ])('answer as one instance of one GPU does where %s', async (_, changes, used) => {
      const cluster = await start('PUT_ASYNC', changes);
      try {
        await expectBlocksCome(cluster);
        expect(await transportsOf(cluster.producers[0]!.url)).toEqual(used);
      } finally {
        await cluster.stop();
      }
    });

    it('answer as it does where both have two, also when P is killed while it sends', async () => {
      const both = { producerArgs: RANKS, consumerArgs: RANKS, transports: ['auto', 'nccl'] };
      const cluster = await start('PUT_ASYNC', both);
      try {
        const half = REQUESTS.length / 2;
        await expectBlocksCome(cluster, half);
        const p = cluster.producers[0]!;
        expect(await transportsOf(p.url)).toEqual(['cuda-ipc', 'nccl']);
        const received = () => Promise.all(cluster.consumers.map(receivedBy));
        const before = await received();
        const answers = answersOf(cluster.url, REQUESTS.slice(half), half);
        await until(async () => (await received()).every((bytes, d) => bytes > before[d]!));
        p.child.kill('SIGKILL');
        expect(await answers).toEqual(expected.slice(half));
        // All blocks of these prompts are more than twice as many.
        expect(sum(await received())).toBeLessThan(3 * sum(before));
      } finally {
        await cluster.stop();
      }
    });
  });

  describe('of which clients leave, and which are killed', () => {
    let cluster: Cluster;
    beforeAll(async () => {
      cluster = await start('PUT_ASYNC', { producers: 2 });
    });
    afterAll(() => cluster?.stop());
    const atD = async (name: string) =>
      (await readMetrics(cluster.consumers[0]!.url)).get(`svc:${name}`) ?? 0;

    it('free everything of a request that is cancelled', async () => {
      expect(await disconnectClients(cluster, 16, 60)).toBeLessThan(5000);
      expect(await atD('generation_tokens_total')).toBeLessThan(16 * 60);
    });

    it('take the blocks of another P, and compute prompts again where there is none', async () => {
      const [first, second] = cluster.producers;
      for (const [index, p] of [first!, second!].entries()) {
        const before = await atD('kv_transfer_received_bytes_total');
        const [from, to] = [5 * index, 5 * index + 3];
        const answers = answersOf(cluster.url, REQUESTS.slice(from, to), 3);
        await until(async () => (await atD('kv_transfer_received_bytes_total')) > before);
        p.child.kill('SIGKILL');
        expect(await answers).toEqual(expected.slice(from, to));
        const loaded = await atD('kv_transfer_loaded_tokens_total');
        const more = await answersOf(cluster.url, REQUESTS.slice(to, to + 2), 1);
        expect(more).toEqual(expected.slice(to, to + 2));
        expect((await atD('kv_transfer_loaded_tokens_total')) > loaded).toBe(p === first);
        if (p === first) expect(await transportsOf(second!.url)).toEqual(['cuda-ipc']);
      }
    });
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
