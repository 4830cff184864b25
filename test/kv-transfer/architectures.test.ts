// The prompt of each architecture from one engine to another, in one process: with its blocks the other one goes on as the
// original implementation does.

import { describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import type { KvTransferEvent } from '../../src/kv-transfer/connector.ts';
import { P2pConnector } from '../../src/kv-transfer/p2p/p2p-connector.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { kvTransferConfig } from '../helpers/kv-instance.ts';
import { needsNative } from '../helpers/needs.ts';
import { newRequest } from '../helpers/new-request.ts';
import { freePort } from '../helpers/svc-process.ts';
import { architectureGoldens } from '../models/golden-cases.ts';

/** A model and its connector, without the threads between them. */
class Instance {
  readonly address: string;
  readonly #core: EngineCore;
  readonly #connector: P2pConnector;

  private constructor(address: string, core: EngineCore, connector: P2pConnector) {
    this.address = address;
    this.#core = core;
    this.#connector = connector;
  }

  static async start(
    modelPath: string,
    role: 'kv_producer' | 'kv_consumer',
    maxModelLen: number | null = null,
  ): Promise<Instance> {
    const kvTransfer = kvTransferConfig({ role, port: await freePort() });
    const options = { modelPath, device: 'cpu', dtype: 'float32', kvCacheMemoryBytes: 2 ** 20 } as const;
    const chunks = { maxNumBatchedTokens: 7, maxModelLen };
    let tell = (_: KvTransferEvent): void => {};
    const core = await EngineCore.start(
      { ...ENGINE_DEFAULTS, ...options, ...chunks, kvTransfer },
      { onTransferEvent: (event) => tell(event) },
    );
    const { info, kvParts } = core.executor;
    const connector = await P2pConnector.start(kvTransfer, {
      compatibility: info.kvCompatibility!,
      parts: kvParts,
      engine: { applyTransfer: (command) => core.scheduler.applyTransfer(command) },
    });
    tell = (event) => connector.consumer.onTransferEvent(event);
    return new Instance(`${kvTransfer.ip}:${kvTransfer.port}`, core, connector);
  }

  get stats(): P2pConnector['stats'] {
    return this.#connector.stats;
  }

  /** The greedy continuation. */
  async answer(requestId: string, promptTokenIds: readonly number[], maxTokens: number): Promise<number[]> {
    const opened = { requestId, promptTokenIds, maxTokens };
    const defaults = { extraKeys: [], promptIndex: 0, numSamples: 1, mayLoad: true };
    const transfer = this.#connector.open({ ...defaults, ...opened });
    const [own = null] = transfer?.sequences ?? [];
    this.#core.scheduler.add(newRequest({ promptTokenIds, stop: { maxTokens }, transfer: own }));
    const tokenIds: number[] = [];
    while (this.#core.hasUnfinished) {
      const finished = this.#core.step();
      for (const { outputs } of finished ?? []) tokenIds.push(...outputs.flatMap((one) => one.tokenIds));
      // Messages of the other instance come with the event loop.
      await new Promise(setImmediate);
    }
    await transfer?.answerable();
    transfer?.end(true);
    return tokenIds;
  }

  async close(): Promise<void> {
    await this.#connector.close();
    this.#core.close();
  }
}

describe('from one engine to another', needsNative, () => {
  it.each(architectureGoldens())(
    'the prompts of $name go on as the original does',
    async ({ folder, cases }) => {
      const p = await Instance.start(folder, 'kv_producer');
      const d = await Instance.start(folder, 'kv_consumer');
      try {
        for (const { ids, greedyIds } of cases) {
          const id = makeRequestId(p.address, d.address);
          expect(await p.answer(id, ids, 1)).toEqual(greedyIds.slice(0, 1));
          expect(await d.answer(id, ids, greedyIds.length)).toEqual(greedyIds);
        }
        const { loadedTokens, recomputed } = d.stats.receive;
        expect(loadedTokens).toBeGreaterThanOrEqual(32);
        expect(Object.values(recomputed).every((count) => count === 0)).toBe(true);
      } finally {
        await Promise.all([p.close(), d.close()]);
      }
    },
  );

  it('nothing goes where long contexts are stretched by another length', async () => {
    const { folder, cases } = architectureGoldens().find(({ name }) => name === 'phi3-longrope')!;
    const { ids, greedyIds } = cases.find(({ name }) => name === 'long')!;
    const p = await Instance.start(folder, 'kv_producer', 58);
    const d = await Instance.start(folder, 'kv_consumer', 64);
    try {
      const id = makeRequestId(p.address, d.address);
      await p.answer(id, ids, 1);
      expect(await d.answer(id, ids, greedyIds.length)).toEqual(greedyIds);
      expect(d.stats.receive.loadedTokens).toBe(0);
    } finally {
      await Promise.all([p.close(), d.close()]);
    }
  });
});
