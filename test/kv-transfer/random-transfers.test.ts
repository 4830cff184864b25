// Hundreds of requests between several instances, with cancels at random moments: every load is answered once, with what
// was computed or with nothing, and everything is free in the end.

import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import { type KvInstance, SLOT_BYTES } from '../helpers/kv-instance.ts';
import {
  closeInstancesAfterEach,
  promptOf,
  startInstance,
  startLoad,
  untilIdle,
} from '../helpers/kv-requests.ts';
import { needsNative } from '../helpers/needs.ts';

const NUM_REQUESTS = 300;
const AT_ONCE = 12;

closeInstancesAfterEach();

/** Numbers from 0 to 1 that are the same in every run. */
function randomStream(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

class Load {
  readonly #random: () => number;
  readonly #producers: readonly KvInstance[];
  readonly #consumers: readonly KvInstance[];
  readonly #releases: Promise<void>[] = [];
  numLoads = 0;
  numLoaded = 0;
  numTokens = 0;

  constructor(producers: readonly KvInstance[], consumers: readonly KvInstance[], seed: number) {
    this.#producers = producers;
    this.#consumers = consumers;
    this.#random = randomStream(seed);
  }

  async run(): Promise<void> {
    let next = 0;
    const worker = async () => {
      while (next < NUM_REQUESTS) {
        next += 1;
        await this.#request(next);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    await Promise.all(this.#releases);
  }

  async #request(seed: number): Promise<void> {
    const [p, d] = [this.#pick(this.#producers), this.#pick(this.#consumers)];
    const id = makeRequestId(p.address, d.address);
    const prompt = promptOf(2 + Math.floor(this.#random() * 60), seed);
    // Some proxies call both at once.
    if (this.#random() < 0.2) await Promise.all([this.#atP(p, id, prompt), this.#atD(d, id, prompt)]);
    else {
      await this.#atP(p, id, prompt);
      await this.#atD(d, id, prompt);
    }
    if (this.#random() < 0.1) p.connector.cancel(id);
  }

  async #atP(p: KvInstance, id: string, prompt: readonly number[]): Promise<void> {
    const transfer = p.open(id, prompt, { maxTokens: 1 });
    const send = transfer?.sequences[0] ?? null;
    const blocks = p.takeBlocks(prompt);
    const isCancelled = this.#random() < 0.15;
    const numComputed = isCancelled ? Math.floor(this.#random() * blocks.length) : blocks.length;
    for (let index = 0; index < numComputed; index += 2) {
      p.computeStep(send, prompt, blocks, index, Math.min(numComputed, index + 2));
      await sleep(this.#random() < 0.3 ? 1 : 0);
    }
    if (!isCancelled) await transfer?.answerable();
    transfer?.end(!isCancelled);
    // As the engine, which keeps the blocks until they are released.
    const released = send === null ? Promise.resolve() : p.released(send);
    this.#releases.push(released.then(() => p.giveBlocks(blocks)));
  }

  async #atD(d: KvInstance, id: string, prompt: readonly number[]): Promise<void> {
    const loading = startLoad(d, id, prompt);
    if (loading === null) return;
    this.numLoads += 1;
    const isCancelled = this.#random() < 0.15;
    if (isCancelled) {
      await sleep(this.#random() * 10);
      loading.transfer.end(false);
      d.connector.consumer.onTransferEvent({ kind: 'loadEnded', transferId: loading.load.transferId });
    }
    const numTokens = await d.loaded(loading.load);
    expect(d.holds(prompt, loading.blocks, numTokens)).toBe(true);
    if (numTokens > 0) this.numLoaded += 1;
    this.numTokens += numTokens;
    loading.transfer.end(!isCancelled);
    d.giveBlocks(loading.blocks);
  }

  #pick(instances: readonly KvInstance[]): KvInstance {
    return instances[Math.floor(this.#random() * instances.length)]!;
  }
}

describe('300 requests between two P and two D', needsNative, () => {
  it.each([
    ['PUT_ASYNC', 'shm', 200, 2 ** 18],
    ['PUT_ASYNC', 'tcp', 20, 2 ** 15],
    ['PUT', 'shm', 20, 0],
    ['PUT', 'tcp', 200, 2 ** 18],
    ['GET', 'shm', 40, 2 ** 16],
    ['GET', 'tcp', 20, 2 ** 15],
  ] as const)(
    'with %s over %s, %d blocks in the buffer and a pool of %d bytes',
    async (sendType, transport, slots, poolBytes) => {
      // What P does not deliver within the hold deadline would make the test wait for it.
      const deadlines = { hold: 2000, unclaimed: 2000, room: 500, unknown: 100, sweep: 20, put: 2000 };
      const common = { sendType, transport, poolBytes, deadlines };
      const start = (role: 'kv_producer' | 'kv_consumer', bufferBytes: number) =>
        startInstance({ ...common, role, bufferBytes });
      const producers = [await start('kv_producer', 1e6), await start('kv_producer', 1e6)];
      const consumers = [
        await start('kv_consumer', slots * SLOT_BYTES),
        await start('kv_consumer', slots * SLOT_BYTES),
      ];
      const load = new Load(producers, consumers, slots);
      await load.run();
      await untilIdle(...producers, ...consumers);
      const all = [...producers, ...consumers];
      expect(all.map((instance) => instance.numFreeBlocks)).toEqual(all.map(() => 512));
      for (const instance of all) {
        const ids = instance.commands.map(({ transferId }) => transferId);
        expect(new Set(ids).size).toBe(ids.length);
      }
      expect(consumers.reduce((sum, { commands }) => sum + commands.length, 0)).toBe(load.numLoads);
      expect(load.numLoaded).toBeGreaterThan(NUM_REQUESTS / 2);
      const counted = consumers.reduce((sum, { stats }) => sum + stats.receive.loadedTokens, 0);
      expect(counted).toBe(load.numTokens);
    },
  );
});
