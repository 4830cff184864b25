// A real model with a connector of KV transfer in this thread, of which several exchange blocks.

import type { EngineConfig } from '../../src/config/engine-config.ts';
import type { KvTransferConfig } from '../../src/config/kv-transfer-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import type { KvCompatibility, KvTransferCommand, KvTransferEvent } from '../../src/kv-transfer/connector.ts';
import { DEADLINES, type Deadlines } from '../../src/kv-transfer/p2p/deadlines.ts';
import { P2pConnector } from '../../src/kv-transfer/p2p/p2p-connector.ts';
import { ENGINE_DEFAULTS } from './engine-defaults.ts';
import { kvTransferConfig } from './kv-instance.ts';
import { newRequest } from './new-request.ts';
import { freePort } from './svc-process.ts';

/**
 * The thread that hears other instances computes here as well, for both sides: nobody is answered during a step, which may take seconds on
 * an emulated GPU. No test with these engines is about a deadline.
 */
const PATIENT: Deadlines = { ...DEADLINES, answer: 60_000, nccl: 60_000, ping: 60_000, stall: 60_000 };

interface KvEngineHooks {
  /** Gets what the connector has for a person. */
  readonly onWarning?: (message: string) => void;
  /** What the connector hears in the place of what the scheduler says. */
  readonly alter?: (event: KvTransferEvent) => KvTransferEvent;
}

/** A model and its connector, without the threads between them. */
export class KvEngine {
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
    options: Partial<EngineConfig> = {},
    more: Partial<KvTransferConfig> = {},
    { onWarning = () => {}, alter = (event) => event }: KvEngineHooks = {},
  ): Promise<KvEngine> {
    const kvTransfer = kvTransferConfig({ role, port: await freePort(), ...more });
    const model = { modelPath, device: 'cpu', dtype: 'float32', kvCacheMemoryBytes: 2 ** 20 } as const;
    let tell = (_: KvTransferEvent): void => {};
    const core = await EngineCore.start(
      { ...ENGINE_DEFAULTS, ...model, maxNumBatchedTokens: 7, ...options, kvTransfer },
      { onTransferEvent: (event) => tell(event) },
    );
    const { info, kvParts } = core.executor;
    const context = {
      compatibility: info.kvCompatibility!,
      parts: kvParts,
      receiveRoom: info.receiveRoom,
      isOnGpu: info.backend === 'cuda',
      engine: { applyTransfer: (command: KvTransferCommand) => core.scheduler.applyTransfer(command) },
      warn: onWarning,
    };
    const connector = await P2pConnector.start(kvTransfer, context, PATIENT);
    // In the engine it is a message between threads: no answer comes before the scheduler has gone on.
    tell = (event) => void setImmediate(() => connector.consumer.onTransferEvent(alter(event)));
    return new KvEngine(`${kvTransfer.ip}:${kvTransfer.port}`, core, connector);
  }

  get stats(): P2pConnector['stats'] {
    return this.#connector.stats;
  }

  get compatibility(): KvCompatibility {
    return this.#core.executor.info.kvCompatibility!;
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
