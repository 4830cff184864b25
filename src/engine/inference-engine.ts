// The engine as the main thread sees it: text in, text out. `LLM` and the HTTP server are its only callers.

import type { EngineConfig } from '../config/engine-config.ts';
import { type EngineDeadError, OverloadedError } from '../errors.ts';
import type { RequestTransfer } from '../kv-transfer/connector.ts';
import { readGenerationConfig } from '../models/generation-config.ts';
import { readModelConfig } from '../models/model-config.ts';
import { uniform } from '../sampling/random-stream.ts';
import type { SamplingDefaults } from '../sampling/sampling-params.ts';
import type { TokenOutput } from '../scheduler/scheduler.ts';
import { loadTokenizer } from '../tokenizer/load-tokenizer.ts';
import type { ChatTemplate, Tokenizer } from '../tokenizer/tokenizer.ts';
import { EngineClient, type EngineClientOptions } from './engine-client.ts';
import {
  type GenerationRequest,
  type ModelLimits,
  type PreparedRequest,
  prepareRequest,
  toEngineRequests,
} from './input-processor.ts';
import { KvTransfers, type OnTransferError } from './kv-transfers.ts';
import type { EngineInfo, EngineStats } from './messages.ts';
import { type OutputDelta, OutputProcessor } from './output-processor.ts';
import { OutputQueue } from './output-queue.ts';

export type {
  GenerationRequest,
  ModelLimits,
  PreparedRequest,
  Prompt,
  TransferKey,
} from './input-processor.ts';
export type { EngineInfo, EngineStats } from './messages.ts';
export type { FinishReason, OutputDelta } from './output-processor.ts';
export type { PositionLogprobs, TokenLogprob } from './token-logprobs.ts';

const RETRY_AFTER_SECONDS = 1;
const NO_TOKENIZER = { tokenizer: null, chatTemplate: null };

export interface InferenceEngineOptions extends EngineClientOptions {
  /** Gets what goes wrong between instances: no request fails by it. */
  readonly onTransferError?: OnTransferError | undefined;
  readonly onTransferWarning?: ((message: string) => void) | undefined;
}

export class InferenceEngine {
  /** Null with --skip-tokenizer-init: token ids in, token ids out. */
  readonly tokenizer: Tokenizer | null;
  /** Null where the model has none. */
  readonly chatTemplate: ChatTemplate | null;
  /** From generation_config.json: what a request that leaves these fields out gets. */
  readonly samplingDefaults: SamplingDefaults;
  readonly limits: ModelLimits;
  readonly #client: EngineClient;
  readonly #transfers: KvTransfers | null;
  readonly #config: EngineConfig;
  #numRequests = 0;
  #nextId = 0;

  private constructor(
    client: EngineClient,
    transfers: KvTransfers | null,
    loaded: { readonly tokenizer: Tokenizer | null; readonly chatTemplate: ChatTemplate | null },
    samplingDefaults: SamplingDefaults,
    limits: ModelLimits,
    config: EngineConfig,
  ) {
    this.#client = client;
    this.#transfers = transfers;
    this.tokenizer = loaded.tokenizer;
    this.chatTemplate = loaded.chatTemplate;
    this.samplingDefaults = samplingDefaults;
    this.limits = limits;
    this.#config = config;
  }

  /**
   * Starts the engine thread and loads model and tokenizer side by side.
   * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
   */
  static async start(config: EngineConfig, options: InferenceEngineOptions = {}): Promise<InferenceEngine> {
    const starting = EngineClient.start(config, options);
    try {
      const modelConfig = await readModelConfig(config.modelPath);
      const generation = await readGenerationConfig(config.modelPath, {
        source: config.generationConfig,
        override: config.overrideGenerationConfig,
      });
      const loaded = config.skipTokenizerInit
        ? NO_TOKENIZER
        : await loadTokenizer(config.tokenizer ?? config.modelPath);
      const client = await starting;
      const primary = loaded.tokenizer?.eosTokenId ?? null;
      const eosTokenIds = [
        ...new Set([
          ...(primary === null ? [] : [primary]),
          ...modelConfig.eosTokenIds,
          ...generation.eosTokenIds,
        ]),
      ];
      const { maxModelLen, vocabSize } = client.info;
      const { maxOutputTokens } = generation;
      const { maxLogprobs } = config;
      const limits = { maxModelLen, vocabSize, eosTokenIds, maxOutputTokens, maxLogprobs };
      const transfers = await KvTransfers.start(config.kvTransfer, client, {
        onError: options.onTransferError,
        onWarning: options.onTransferWarning,
      });
      return new InferenceEngine(client, transfers, loaded, generation.sampling, limits, config);
    } catch (error) {
      // Both sides read the same folder and may both refuse it: the first error is the one to show.
      await starting.then(
        (client) => client.close(),
        () => {},
      );
      throw error;
    }
  }

  get info(): EngineInfo {
    return this.#client.info;
  }

  /** Resolves when the engine thread has ended by itself: the process should end too. */
  get died(): Promise<EngineDeadError> {
    return this.#client.died;
  }

  get isAlive(): boolean {
    return this.#client.isAlive;
  }

  /**
   * Tokenises and checks a request.
   * @throws InvalidRequestError when it is empty, too long, out of the vocabulary or needs a missing tokenizer.
   */
  prepare(request: GenerationRequest): Promise<PreparedRequest> {
    return prepareRequest(request, this.tokenizer, this.limits);
  }

  /**
   * Runs a request; the deltas of its n samples come as they are made. Ending the iteration early, or aborting
   * `signal`, frees the request's KV blocks at once.
   * @throws EngineDeadError when the engine ends before the request does; the reason of `signal` when it is aborted.
   */
  async *generate(
    request: PreparedRequest,
    signal?: AbortSignal,
  ): AsyncGenerator<OutputDelta, void, undefined> {
    signal?.throwIfAborted();
    const queue = new OutputQueue();
    const transfer = this.#transfers?.open(request, this.limits) ?? null;
    let unfinished = request.params.n;
    let ids: readonly number[] = [];
    // The reader may be waiting for something else than the queue: its blocks are not to wait with it.
    const stop = (): void => {
      this.#client.abort(ids);
      queue.fail(toError(signal?.reason));
    };
    signal?.addEventListener('abort', stop, { once: true });
    try {
      ids = this.#submit(request, queue, transfer);
      while (unfinished > 0) {
        for (const delta of await queue.take()) {
          if (delta.finish_reason !== null) unfinished -= 1;
          // The client may take the end of the answer for the end of the transfer.
          if (unfinished === 0 && transfer !== null) await this.#transfers?.answerable(transfer, signal);
          yield delta;
        }
      }
    } finally {
      signal?.removeEventListener('abort', stop);
      this.#client.abort(ids);
      this.#transfers?.end(transfer, unfinished === 0 && !signal?.aborted);
    }
  }

  /** Gives up what the proxy's request `requestId` has to do with other instances, here and there. */
  cancelTransfer(requestId: string): void {
    this.#transfers?.cancel(requestId);
  }

  /** Resolves when other instances have all that is kept for them, or after `deadlineMs`. */
  async transfersDelivered(deadlineMs: number): Promise<void> {
    await this.#transfers?.delivered(deadlineMs);
  }

  /** Whether requests may ask to be served earlier or later than others. */
  get hasPriorities(): boolean {
    return this.#config.schedulingPolicy === 'priority';
  }

  /**
   * Asked before `numSequences` more are sent. What would come alone is always taken, however much it is.
   * @throws OverloadedError where they would wait behind more than --max-queued-requests allows.
   */
  checkRoom(numSequences: number): void {
    const { numInFlight } = this.#client;
    const { maxNumSeqs, maxQueuedRequests } = this.#config;
    if (numInFlight === 0 || numInFlight + numSequences <= maxNumSeqs + maxQueuedRequests) return;
    throw new OverloadedError(
      `The server is full: ${numInFlight} sequences run or wait, ${maxNumSeqs} may run (--max-num-seqs) and ` +
        `${maxQueuedRequests} wait (--max-queued-requests); try again later`,
      { retryAfter: RETRY_AFTER_SECONDS },
    );
  }

  /** Forgets every cached block; false, and nothing is forgotten, while requests run. */
  resetPrefixCache(): Promise<boolean> {
    return this.#client.resetPrefixCache();
  }

  async stats(): Promise<EngineStats> {
    return { ...(await this.#client.stats()), kvTransfer: this.#transfers?.stats ?? null };
  }

  /** Aborts what is in flight, says goodbye to other instances, ends the engine thread and frees its memory. */
  async close(): Promise<void> {
    await this.#transfers?.close();
    await this.#client.close();
  }

  /** @returns the engine's id of each sample. */
  #submit(request: PreparedRequest, queue: OutputQueue, transfer: RequestTransfer | null): number[] {
    const requests = toEngineRequests(request, this.limits, {
      firstId: this.#nextId,
      defaultSeed: this.#drawSeed(),
      transfers: transfer?.sequences ?? [],
    });
    this.#nextId += requests.length;
    for (const [index, engineRequest] of requests.entries()) {
      const processor = new OutputProcessor(index, request, this.tokenizer);
      this.#client.add(engineRequest, {
        onToken: (output) => this.#process(processor, output, queue),
        onDeath: (error) => queue.fail(error),
      });
    }
    return requests.map(({ id }) => id);
  }

  #process(processor: OutputProcessor, output: TokenOutput, queue: OutputQueue): void {
    try {
      const delta = processor.process(output);
      // A stop string ends the sample here while the engine would go on.
      if (delta.finish_reason !== null) this.#client.abort([output.requestId]);
      queue.push(delta);
    } catch (error) {
      this.#client.abort([output.requestId]);
      queue.fail(toError(error));
    }
  }

  /** A seed for a request that brings none: from the engine's seed and the order of arrival. */
  #drawSeed(): number {
    return Math.floor(uniform(this.#config.seed, this.#numRequests++, 0) * 2 ** 53);
  }
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason ?? 'aborted'));
}
