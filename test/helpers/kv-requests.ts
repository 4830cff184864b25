// Requests as instances of disaggregated serving get them: the prefill half, the decode half, and what must be true
// when all is over. For tests with real connectors.

import { afterEach, expect } from 'vitest';
import type { RequestTransfer, SequenceTransfer } from '../../src/kv-transfer/connector.ts';
import { KvInstance, type KvInstanceOptions } from './kv-instance.ts';

const instances: KvInstance[] = [];

/** Starts an instance that is closed after the test. */
export async function startInstance(options: KvInstanceOptions): Promise<KvInstance> {
  const instance = await KvInstance.start(options);
  instances.push(instance);
  return instance;
}

/** A producer and a consumer. */
export async function startPair(options: KvInstanceOptions = {}, ofP: KvInstanceOptions = {}) {
  return {
    p: await startInstance({ ...options, role: 'kv_producer', ...ofP }),
    d: await startInstance({ ...options, role: 'kv_consumer' }),
  };
}

/** To be called at the top of a test file. */
export function closeInstancesAfterEach(): void {
  afterEach(async () => {
    await Promise.all(instances.splice(0).map((instance) => instance.close()));
  });
}

export function promptOf(length: number, seed = 1): number[] {
  return Array.from({ length }, (_, index) => (seed * 101 + index * 7) % 1000);
}

/** What P does with a request of one token; @returns what it sends, null for nothing. */
export async function prefill(
  p: KvInstance,
  id: string,
  prompt: readonly number[],
): Promise<SequenceTransfer | null> {
  const transfer = p.open(id, prompt, { maxTokens: 1 });
  const send = transfer?.sequences[0] ?? null;
  const blocks = p.takeBlocks(prompt);
  await p.compute(send, prompt, blocks);
  await transfer?.answerable();
  transfer?.end(true);
  return send;
}

export interface Loading {
  readonly transfer: RequestTransfer;
  readonly load: SequenceTransfer;
  readonly blocks: readonly number[];
}

/** A request at D that wants all blocks; null where it is an ordinary one. */
export function startLoad(
  d: KvInstance,
  id: string,
  prompt: readonly number[],
  firstBlock = 0,
): Loading | null {
  const transfer = d.open(id, prompt);
  const load = transfer?.sequences[0] ?? null;
  if (transfer === null || load === null) return null;
  const blocks = d.takeBlocks(prompt);
  d.connector.consumer.onTransferEvent({ kind: 'load', transferId: load.transferId, firstBlock, blocks });
  return { transfer, load, blocks };
}

/** Waits for the one answer to a load; @returns the tokens that came. */
export async function loaded(d: KvInstance, { load }: Loading): Promise<number> {
  await expect.poll(() => d.commandsOf(load).length, { interval: 2, timeout: 10_000 }).toBe(1);
  const [command] = d.commandsOf(load);
  return command?.kind === 'loaded' ? command.numTokens : -1;
}

/** What D does with a request; @returns the tokens that came, which are what P computed. */
export async function decode(
  d: KvInstance,
  id: string,
  prompt: readonly number[],
  firstBlock = 0,
): Promise<number> {
  const loading = startLoad(d, id, prompt, firstBlock);
  if (loading === null) return 0;
  const numTokens = await loaded(d, loading);
  expect(d.holds(prompt, loading.blocks, numTokens, firstBlock)).toBe(true);
  loading.transfer.end(true);
  d.giveBlocks(loading.blocks);
  return numTokens;
}

/** Nothing is taken for transfers any more, on none of the instances. */
export async function untilIdle(...all: readonly KvInstance[]): Promise<void> {
  const taken = () =>
    all.map(({ stats: { send, receive } }) => [
      send.holding,
      receive.receiveBuffers,
      receive.bufferUsedBytes,
      receive.poolUsedBytes,
    ]);
  await expect.poll(taken, { timeout: 5000 }).toEqual(all.map(() => [0, 0, 0, 0]));
}
