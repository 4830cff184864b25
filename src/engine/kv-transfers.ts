// Connects requests on the main thread and the engine thread with the connector. Whatever fails in KV transfer, requests are
// computed here as if there were no other instances.

import type { KvTransferConfig } from '../config/kv-transfer-config.ts';
import { EngineHangsError } from '../errors.ts';
import type { KvTransferStats, RequestTransfer } from '../kv-transfer/connector.ts';
import type { P2pConnector } from '../kv-transfer/p2p/p2p-connector.ts';
import { within } from '../util/within.ts';
import type { EngineClient } from './engine-client.ts';
import type { PreparedRequest } from './input-processor.ts';

export type OnTransferError = (error: unknown) => void;

interface TransferListeners {
  /** Gets errors between instances; no request fails because of them. */
  readonly onError?: OnTransferError | undefined;
  /** Gets messages for a person, such as that an instance serves another model. */
  readonly onWarning?: ((message: string) => void) | undefined;
  /** The same, where nothing is wrong: over what blocks go. */
  readonly onInfo?: ((message: string) => void) | undefined;
}

export class KvTransfers {
  readonly #connector: P2pConnector;
  readonly #onError: OnTransferError;

  private constructor(connector: P2pConnector, onError: OnTransferError) {
    this.#connector = connector;
    this.#onError = onError;
  }

  /**
   * Null where the engine exchanges no KV blocks.
   * @throws ConfigError where an address cannot be bound.
   */
  static async start(
    config: KvTransferConfig | null,
    client: EngineClient,
    { onError = () => {}, onWarning = () => {}, onInfo = () => {} }: TransferListeners = {},
  ): Promise<KvTransfers | null> {
    const { kvParts, info } = client;
    if (config === null || kvParts.length === 0 || info.kvCompatibility === null) return null;
    // Only instances that exchange blocks load ZeroMQ.
    const p2p = await import('../kv-transfer/p2p/p2p-connector.ts');
    const connector = await p2p.P2pConnector.start(config, {
      compatibility: info.kvCompatibility,
      parts: kvParts,
      receiveRoom: info.receiveRoom,
      isOnGpu: info.isOnGpu,
      engine: client,
      warn: onWarning,
      inform: onInfo,
    });
    const transfers = new KvTransfers(connector, onError);
    client.kvConsumer = connector.consumer;
    // Peers are told at once, not when their deadlines end.
    void client.died.then((death) => {
      // What waits for a device that hangs would let this thread hang as well; the others hear of the end from their connections.
      if (!(death instanceof EngineHangsError)) transfers.close();
    });
    return transfers;
  }

  get stats(): KvTransferStats {
    return this.#connector.stats;
  }

  /** Null for a request that other instances have no part in. */
  open(request: PreparedRequest): RequestTransfer | null {
    const { transferKey, promptTokenIds, extraKeys, params, stop } = request;
    if (transferKey === null) return null;
    const opened = {
      ...transferKey,
      promptTokenIds,
      extraKeys,
      numSamples: params.n,
      maxTokens: stop.maxTokens,
      mayLoad: params.prompt_logprobs === null,
    };
    return this.#guard(() => this.#connector.open(opened), null);
  }

  end(transfer: RequestTransfer | null, isComplete: boolean): void {
    this.#guard(() => transfer?.end(isComplete), undefined);
  }

  /** Resolves when the answer may leave, or `signal` is aborted. */
  async answerable(transfer: RequestTransfer, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return;
    let stop = (): void => {};
    const aborted = new Promise<void>((resolve) => {
      stop = resolve;
      signal?.addEventListener('abort', stop, { once: true });
    });
    await Promise.race([transfer.answerable().catch(this.#onError), aborted]);
    signal?.removeEventListener('abort', stop);
  }

  cancel(requestId: string): void {
    this.#guard(() => this.#connector.cancel(requestId), undefined);
  }

  /** Resolves when nothing is held for other instances any more, or after `deadlineMs`. */
  async delivered(deadlineMs: number): Promise<void> {
    await within(deadlineMs, this.#connector.producer.delivered());
  }

  async close(): Promise<void> {
    await this.#connector.close().catch(this.#onError);
  }

  #guard<T>(act: () => T, otherwise: T): T {
    try {
      return act();
    } catch (error) {
      this.#onError(error);
      return otherwise;
    }
  }
}
