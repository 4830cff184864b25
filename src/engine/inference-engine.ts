// The engine as the main thread sees it: text in, text out.

import type { EngineConfig } from '../config/engine-config.ts';
import { type EngineDeadError, InvalidRequestError } from '../errors.ts';
import type { RequestTransfer } from '../kv-transfer/connector.ts';
import type { EmbeddingConfig, PoolingConfig } from '../models/pooling/pooling-config.ts';
import type { AnswerFormats } from '../parsers/answer-formats.ts';
import type { EngineInfo } from '../runner/executor.ts';
import { uniform } from '../sampling/random-stream.ts';
import type { SamplingDefaults, SamplingParams } from '../sampling/sampling-params.ts';
import type { NewRequest } from '../scheduler/request.ts';
import type { TokenizerInfo } from '../tokenizer/load-tokenizer.ts';
import type { ChatTemplate, Tokenizer } from '../tokenizer/tokenizer.ts';
import { Adapters } from './adapters.ts';
import { Admission, type Ticket } from './admission.ts';
import { ConstraintCompiler } from './constraints/compiler.ts';
import { EngineClient, type EngineClientOptions, type RequestListener } from './engine-client.ts';
import { engineSample } from './engine-sample.ts';
import {
  type ModelLimits,
  type PreparedRequest,
  type Prompt,
  prepareRequest,
  type RequestOptions,
} from './input-processor.ts';
import { KvTransfers, type OnTransferError } from './kv-transfers.ts';
import type { EngineStats } from './messages.ts';
import type { ModelText } from './model-text.ts';
import { type OutputDelta, OutputProcessor } from './output-processor.ts';
import { OutputQueue } from './output-queue.ts';
import { runPooled } from './pooling/pooled-request.ts';
import {
  type PoolingOptions,
  type PoolingPrompt,
  type PreparedPooling,
  preparePooling,
} from './pooling/pooling-input.ts';
import { type EndedSample, type EngineObserver, promptEnds, SampleTimes } from './sample-times.ts';
import { SampleWindow } from './sample-window.ts';

export type { EngineInfo } from '../runner/executor.ts';
export type { ServedAdapter } from './adapters.ts';
export type { Ticket } from './admission.ts';
export type { ModelLimits, PreparedRequest, Prompt, RequestOptions } from './input-processor.ts';
export type { EngineStats } from './messages.ts';
export type { OutputDelta } from './output-processor.ts';
export type { PoolingOptions, PoolingPrompt, PreparedPooling } from './pooling/pooling-input.ts';
export type { EndedSample, EngineObserver } from './sample-times.ts';
export type { PositionLogprobs, TokenLogprob } from './token-logprobs.ts';

/** A request without a ticket has the engine to itself: no turns, and no bound. */
const NO_TICKET = { caller: 0, group: 0 };
/** What is the same of all sequences that are pooled: nothing is sampled, and the prompt is the end. */
const POOLED = {
  extraKeys: [],
  sampling: { temperature: 0, topK: 0, topP: 1, minP: 0, numLogprobs: null, seed: 0, sample: 0 },
  rules: null,
  numPromptLogprobs: null,
  stop: { eosTokenId: null, stopTokenIds: [], minTokens: 0, maxTokens: 1 },
  resumedTokenIds: [],
  transfer: null,
  adapterId: null,
} as const;

interface InferenceEngineOptions extends EngineClientOptions {
  /** Gets errors between instances; no request fails because of them. */
  readonly onTransferError?: OnTransferError | undefined;
}

export class InferenceEngine {
  /** Null with --skip-tokenizer-init: token ids in, token ids out. */
  readonly tokenizer: Tokenizer | null;
  /** Null where the model has none. */
  readonly chatTemplate: ChatTemplate | null;
  /** What the model's files say of the tokenizer. */
  readonly tokenizerInfo: TokenizerInfo;
  /** How the model writes thoughts and calls of functions. */
  readonly answerFormats: AnswerFormats;
  /** From generation_config.json: the values of fields that a request leaves out. */
  readonly samplingDefaults: SamplingDefaults;
  readonly limits: ModelLimits;
  /** Decides which callers a server lets in; programs have the engine to themselves. */
  readonly admission: Admission;
  readonly adapters: Adapters;
  readonly constraints: ConstraintCompiler;
  /** Null where no KV blocks are exchanged. */
  readonly transfers: KvTransfers | null;
  readonly #client: EngineClient;
  readonly #config: EngineConfig;
  #observer: EngineObserver | null = null;
  #numRequests = 0;
  #nextId = 0;

  private constructor(
    client: EngineClient,
    transfers: KvTransfers | null,
    { tokenizer, chatTemplate, tokenizerInfo, answerFormats, samplingDefaults }: ModelText,
    limits: ModelLimits,
    config: EngineConfig,
  ) {
    this.#client = client;
    this.transfers = transfers;
    this.tokenizer = tokenizer;
    this.chatTemplate = chatTemplate;
    this.tokenizerInfo = tokenizerInfo;
    this.answerFormats = answerFormats;
    this.samplingDefaults = samplingDefaults;
    this.limits = limits;
    this.#config = config;
    this.constraints = new ConstraintCompiler(this, config.structuredOutputs);
    this.admission = new Admission(config);
    this.adapters = new Adapters(client, config.lora, client.adapters);
  }

  /**
   * Starts the engine thread and loads model and tokenizer side by side.
   * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
   */
  static async start(config: EngineConfig, options: InferenceEngineOptions = {}): Promise<InferenceEngine> {
    const failure = new AbortController();
    const starting = EngineClient.start(config, options, failure.signal);
    // Ignore: awaited below, behind the errors of options and small files.
    starting.catch(() => {});
    try {
      const { readModelText } = await import('./model-text.ts');
      const { onWarning } = options;
      const text = await readModelText(config, onWarning);
      const client = await starting;
      const { maxModelLen, vocabSize } = client.info;
      warnOfForeignIds(text.tokenizer, vocabSize, onWarning);
      const { eosTokenIds, maxOutputTokens } = text;
      const limits = {
        maxModelLen,
        vocabSize,
        eosTokenIds,
        maxOutputTokens,
        maxLogprobs: config.maxLogprobs,
      };
      const transfers = await KvTransfers.start(config.kvTransfer, client, {
        onError: options.onTransferError,
        onWarning,
      });
      return new InferenceEngine(client, transfers, text, limits, config);
    } catch (error) {
      failure.abort();
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

  /** Of the KV cache, in the spelling of the options. */
  get cacheSettings(): Readonly<Record<string, string>> {
    const { enablePrefixCaching, gpuMemoryUtilization, kvCacheMemoryBytes } = this.#config;
    const { blockSize, numBlocks, kvDType } = this.info;
    return {
      block_size: String(blockSize),
      cache_dtype: kvDType,
      enable_prefix_caching: String(enablePrefixCaching),
      gpu_memory_utilization: String(gpuMemoryUtilization),
      kv_cache_memory_bytes: String(kvCacheMemoryBytes),
      num_gpu_blocks: String(numBlocks),
      prefix_caching_hash_algo: 'sha256',
    };
  }

  /** Whether tokens are guessed ahead. */
  get speculates(): boolean {
    return this.#config.speculative !== null;
  }

  /** Resolves when the engine thread has ended by itself: the process should end too. */
  get died(): Promise<EngineDeadError> {
    return this.#client.died;
  }

  get isAlive(): boolean {
    return this.#client.isAlive;
  }

  /** From now on `observer` is told about requests; there is one at a time. */
  observe(observer: EngineObserver): void {
    this.#observer = observer;
    this.#client.onStep = (numTokens) => observer.step(numTokens);
  }

  /**
   * Tokenises and checks a request.
   * @throws InvalidRequestError when it is empty, too long, out of the vocabulary or needs a missing tokenizer.
   */
  async prepare(
    prompt: Prompt,
    params: SamplingParams,
    options: RequestOptions = {},
  ): Promise<PreparedRequest> {
    this.expectGenerating();
    return prepareRequest(prompt, params, options, this);
  }

  /**
   * Runs a request and yields the deltas of its n samples as they are made. Ending the iteration early, or aborting
   * `signal`, frees the request's KV blocks at once. Requests of one `ticket` share its places.
   * @throws EngineDeadError when the engine ends before the request does; the reason of `signal` when it is aborted.
   */
  async *generate(
    request: PreparedRequest,
    signal?: AbortSignal,
    ticket: Ticket | null = null,
  ): AsyncGenerator<OutputDelta, void, undefined> {
    signal?.throwIfAborted();
    const queue = new OutputQueue();
    const transfer = this.transfers?.open(request) ?? null;
    let unfinished = request.params.n;
    const samples = this.#submit(request, queue, transfer, ticket, signal);
    // The reader may be waiting for something else than the queue: its blocks are not to wait with it.
    const stop = (): void => {
      samples.withdraw();
      queue.fail(signal?.reason);
    };
    signal?.addEventListener('abort', stop, { once: true });
    try {
      while (unfinished > 0) {
        for (const delta of await queue.take()) {
          if (delta.finish_reason !== null) unfinished -= 1;
          // The client may take the end of the answer for the end of the transfer.
          if (unfinished === 0 && transfer !== null) await this.transfers?.answerable(transfer, signal);
          yield delta;
        }
      }
    } finally {
      signal?.removeEventListener('abort', stop);
      samples.withdraw();
      this.transfers?.end(transfer, unfinished === 0 && !signal?.aborted);
    }
  }

  /** @throws InvalidRequestError where the model gives numbers, not tokens. */
  expectGenerating(): void {
    const { pooling, model } = this.info;
    if (pooling === null) return;
    const [gives, routes] =
      pooling.task === 'embed'
        ? ['embeddings', '/v1/embeddings']
        : ['scores of texts', '/v1/rerank or /score'];
    throw new InvalidRequestError(`The model ${model} gives ${gives} and generates no text: use ${routes}`, {
      param: 'model',
    });
  }

  /** @throws InvalidRequestError where the model generates text. */
  expectPooling(): PoolingConfig {
    const { pooling, model } = this.info;
    if (pooling !== null) return pooling;
    throw new InvalidRequestError(
      `The model ${model} generates text: embeddings and scores are served where it is started with --runner pooling, or a ` +
        'model is that was made for them',
      { param: 'model' },
    );
  }

  /** @throws InvalidRequestError where the model does not give embeddings. */
  expectEmbedding(): EmbeddingConfig {
    const pooling = this.expectPooling();
    if (pooling.task === 'embed') return pooling;
    throw new InvalidRequestError(
      `The model ${this.info.model} scores how well two texts fit, and gives no embeddings: use /v1/rerank or /score`,
      { param: 'model' },
    );
  }

  /**
   * Tokenises and checks what a pooling model is to read.
   * @throws InvalidRequestError when it is empty, too long, out of the vocabulary or needs a missing tokenizer.
   */
  async preparePooling(prompt: PoolingPrompt, options: PoolingOptions): Promise<PreparedPooling> {
    const pooling = this.expectPooling();
    const pairPrompt = pooling.task === 'score' ? pooling.prompt : 'pair';
    return preparePooling(prompt, options, { tokenizer: this.tokenizer, limits: this.limits, pairPrompt });
  }

  /**
   * The model's numbers for one sequence: the hidden state that stands for it, or what its head makes of that.
   * @throws EngineDeadError when the engine ends before; the reason of `signal` when it is aborted, which frees the KV blocks.
   */
  pool(prepared: PreparedPooling, signal?: AbortSignal, ticket: Ticket | null = null): Promise<Float32Array> {
    const { promptTokenIds, secondTextStart, priority, arrivedAt } = prepared;
    const { caller, group } = ticket ?? NO_TICKET;
    const ids = { id: this.#nextId++, caller, group, priority };
    const request = { ...POOLED, ...ids, promptTokenIds, pooling: { secondTextStart } };
    const onSampleEnded = this.#observePrompt(1, ticket);
    const times = new SampleTimes(
      this.#observer,
      { arrivedAt, promptTokenIds, stop: POOLED.stop },
      onSampleEnded,
    );
    const window = ticket?.window ?? new SampleWindow(Number.POSITIVE_INFINITY);
    return runPooled(this.#client, { request, times, window, signal });
  }

  /** Whether requests may ask to be served earlier or later than others. */
  get hasPriorities(): boolean {
    return this.#config.schedulingPolicy === 'priority';
  }

  /** Forgets every cached block; false, and nothing is forgotten, while requests run. */
  resetPrefixCache(): Promise<boolean> {
    return this.#client.resetPrefixCache();
  }

  async stats(): Promise<EngineStats> {
    const kvTransfer = this.transfers?.stats ?? null;
    return { ...(await this.#client.stats()), heldBack: this.admission.numHeldBack, kvTransfer };
  }

  /** Aborts what is in flight, says goodbye to other instances, ends the engine thread and frees its memory. */
  async close(): Promise<void> {
    await Promise.all([this.chatTemplate?.close(), this.constraints.close(), this.transfers?.close()]);
    await this.#client.close();
    await this.tokenizer?.close();
  }

  /** Sends as many samples as the ticket has places for, and each of the others when one before it has ended. */
  #submit(
    request: PreparedRequest,
    queue: OutputQueue,
    transfer: RequestTransfer | null,
    ticket: Ticket | null,
    signal: AbortSignal | undefined,
  ): { withdraw(): void } {
    const requests = this.#requestsOf(request, transfer, ticket ?? NO_TICKET);
    const onSampleEnded = this.#observePrompt(requests.length, ticket);
    const samples = requests.map((engineRequest, index) => {
      const processor = new OutputProcessor(index, request, this.tokenizer);
      const times = new SampleTimes(this.#observer, request, onSampleEnded);
      const onEnd = (): void => leaves[index]!();
      return engineSample(this.#client, { request: engineRequest, processor, times, queue, onEnd });
    });
    const window = ticket?.window ?? new SampleWindow(Number.POSITIVE_INFINITY);
    // One message for all that start at once: what they share is copied once.
    const atOnce: RequestListener[] = [];
    let start = (sample: RequestListener): void => void atOnce.push(sample);
    const leaves = samples.map((sample) => window.enter(() => start(sample)));
    start = (sample) => {
      // Prompts of one request end one after the other: a place that one gives up is of no use to the next.
      if (!signal?.aborted) this.#client.add([sample]);
    };
    this.#client.add(atOnce);
    const withdraw = (): void => {
      this.#client.abort(requests);
      for (const sample of samples) sample.onWithdrawn();
      // The last first: a place that is given up must not go to a sample that is withdrawn, too.
      for (const leave of leaves.toReversed()) leave();
    };
    return { withdraw };
  }

  /** @returns what is to be told of each of its samples. */
  #observePrompt(numSamples: number, ticket: Ticket | null): (sample: EndedSample) => void {
    const observer = this.#observer;
    observer?.prompt(numSamples);
    const countEnd = promptEnds(numSamples, (mostTokens) => observer?.promptEnded(mostTokens));
    return (sample) => {
      countEnd(sample);
      ticket?.onSampleEnded(sample);
    };
  }

  /** One for each of the n samples. A request without a seed draws one, by the engine's own and the order of arrival. */
  #requestsOf(
    request: PreparedRequest,
    transfer: RequestTransfer | null,
    { caller, group }: Pick<Ticket, 'caller' | 'group'>,
  ): NewRequest[] {
    const { params, arrivedAt: _, transferKey: __, adapter: ___, answer: ____, resume, ...shared } = request;
    const drawn = Math.floor(uniform(this.#config.seed, this.#numRequests++, 0) * 2 ** 53);
    return Array.from({ length: params.n }, (_, sample) => ({
      ...shared,
      id: this.#nextId++,
      caller,
      group,
      sampling: { ...shared.sampling, seed: params.seed ?? drawn, sample },
      // The prompt is the same for all samples: the first one reports its log-probabilities.
      numPromptLogprobs: sample === 0 ? shared.numPromptLogprobs : null,
      resumedTokenIds: resume?.[sample] ?? [],
      transfer: transfer?.sequences[sample] ?? null,
    }));
  }
}

/** Texts with such tokens are refused when they come; that the files do not belong together is better known at start. */
function warnOfForeignIds(
  tokenizer: Tokenizer | null,
  vocabSize: number,
  onWarning: InferenceEngineOptions['onWarning'],
): void {
  const largest = (tokenizer?.vocabSize ?? 0) - 1;
  if (largest < vocabSize) return;
  onWarning?.(
    `the tokenizer has ids up to ${largest}, but the model knows only those below ${vocabSize} (vocab_size in ` +
      'config.json): prompts with others are refused; is it the tokenizer of another model?',
  );
}
