// The engine as the main thread sees it: text in, text out. `LLM` and the HTTP server are its only callers.

import type { EngineConfig } from '../config/engine-config.ts';
import { type EngineDeadError, OverloadedError } from '../errors.ts';
import { type GenerationConfig, readGenerationConfig } from '../models/generation-config.ts';
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
import type { EngineInfo, EngineStats } from './messages.ts';
import { type OutputDelta, OutputProcessor } from './output-processor.ts';
import { OutputQueue } from './output-queue.ts';

export type { GenerationRequest, ModelLimits, PreparedRequest, Prompt } from './input-processor.ts';
export type { EngineInfo, EngineStats } from './messages.ts';
export type { FinishReason, OutputDelta } from './output-processor.ts';

/** Sequences in flight, waiting ones included, before new requests are turned away. */
const MAX_IN_FLIGHT = 16_384;
const RETRY_AFTER_SECONDS = 1;
const NO_TOKENIZER = { tokenizer: null, chatTemplate: null };

export class InferenceEngine {
  /** Null with --skip-tokenizer-init: token ids in, token ids out. */
  readonly tokenizer: Tokenizer | null;
  /** Null where the model has none. */
  readonly chatTemplate: ChatTemplate | null;
  /** From generation_config.json: what a request that leaves these fields out gets. */
  readonly samplingDefaults: SamplingDefaults;
  readonly limits: ModelLimits;
  /** What the model's makers chose and svc cannot do yet, for a warning at start. */
  readonly notices: readonly string[];
  readonly #client: EngineClient;
  readonly #seed: number;
  #numRequests = 0;
  #nextId = 0;

  private constructor(
    client: EngineClient,
    loaded: { readonly tokenizer: Tokenizer | null; readonly chatTemplate: ChatTemplate | null },
    generation: GenerationConfig,
    eosTokenIds: readonly number[],
    seed: number,
  ) {
    this.#client = client;
    this.tokenizer = loaded.tokenizer;
    this.chatTemplate = loaded.chatTemplate;
    this.samplingDefaults = generation.sampling;
    const { maxModelLen, vocabSize } = client.info;
    this.limits = { maxModelLen, vocabSize, eosTokenIds };
    this.notices = generation.notApplied.map(
      (field) => `generation_config.json asks for ${field}, which is not available yet and not applied`,
    );
    this.#seed = seed;
  }

  /**
   * Starts the engine thread and loads model and tokenizer side by side.
   * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
   */
  static async start(config: EngineConfig, options: EngineClientOptions = {}): Promise<InferenceEngine> {
    const starting = EngineClient.start(config, options);
    try {
      const modelConfig = await readModelConfig(config.modelPath);
      const generation = await readGenerationConfig(config.modelPath, config.generationConfig);
      const loaded = config.skipTokenizerInit ? NO_TOKENIZER : await loadTokenizer(config.modelPath);
      const client = await starting;
      const primary = loaded.tokenizer?.eosTokenId ?? null;
      const eosTokenIds = [
        ...new Set([
          ...(primary === null ? [] : [primary]),
          ...modelConfig.eosTokenIds,
          ...generation.eosTokenIds,
        ]),
      ];
      return new InferenceEngine(client, loaded, generation, eosTokenIds, config.seed);
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
   * @throws OverloadedError when too many requests are in flight.
   */
  async prepare(request: GenerationRequest): Promise<PreparedRequest> {
    if (this.#client.numInFlight + request.params.n > MAX_IN_FLIGHT) {
      throw new OverloadedError(`more than ${MAX_IN_FLIGHT} sequences are in flight; try again later`, {
        retryAfter: RETRY_AFTER_SECONDS,
      });
    }
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
    const ids = this.#submit(request, queue);
    const stopWaiting = (): void => queue.fail(toError(signal?.reason));
    signal?.addEventListener('abort', stopWaiting, { once: true });
    try {
      let unfinished = ids.length;
      while (unfinished > 0) {
        for (const delta of await queue.take()) {
          if (delta.finish_reason !== null) unfinished -= 1;
          yield delta;
        }
      }
    } finally {
      signal?.removeEventListener('abort', stopWaiting);
      this.#client.abort(ids);
    }
  }

  stats(): Promise<EngineStats> {
    return this.#client.stats();
  }

  /** Aborts what is in flight, ends the engine thread and frees its memory. */
  close(): Promise<void> {
    return this.#client.close();
  }

  /** @returns the engine's id of each sample. */
  #submit(request: PreparedRequest, queue: OutputQueue): number[] {
    const requests = toEngineRequests(request, this.limits, this.#nextId, this.#drawSeed());
    this.#nextId += requests.length;
    const { skip_special_tokens: skipSpecialTokens } = request.params;
    for (const [index, engineRequest] of requests.entries()) {
      const { promptTokenIds } = request;
      const decoder = this.tokenizer?.decodeStream({ skipSpecialTokens, promptTokenIds }) ?? null;
      const processor = new OutputProcessor(index, request.params, decoder);
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
    return Math.floor(uniform(this.#seed, this.#numRequests++, 0) * 2 ** 53);
  }
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason ?? 'aborted'));
}
