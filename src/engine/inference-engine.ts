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
import type { EngineClientOptions, RequestListener } from './engine-client.ts';
import { EngineGroup, type Place } from './engine-group.ts';
import { engineSample } from './engine-sample.ts';
import { type EngineStats, sumOfStats } from './engine-stats.ts';
import { HeldImages } from './held-images.ts';
import type { ImageInputs } from './image-inputs.ts';
import {
  type ModelLimits,
  type PreparedRequest,
  type Prompt,
  prepareRequest,
  type RequestOptions,
} from './input-processor.ts';
import { KvTransfers, type OnTransferError } from './kv-transfers.ts';
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
export type { EngineStats } from './engine-stats.ts';
export type { ModelLimits, PreparedRequest, Prompt, RequestOptions } from './input-processor.ts';
export type { OutputDelta } from './output-processor.ts';
export type { PoolingOptions, PoolingPrompt, PreparedPooling } from './pooling/pooling-input.ts';
export type { EndedSample, EngineObserver } from './sample-times.ts';
export type { PositionLogprobs, TokenLogprob } from './token-logprobs.ts';

/** A request without a ticket has the engine to itself: no turns, and no bound. */
const NO_TICKET = { caller: 0, group: 0, rank: null };
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
/** What waits on the main thread is told of one engine. */
const NOTHING_HERE = { heldBack: 0, kvTransfer: null };

interface InferenceEngineOptions extends EngineClientOptions {
  /** Gets errors between instances; no request fails because of them. */
  readonly onTransferError?: OnTransferError | undefined;
  /** Gets what a person may want to know of a server, such as over what KV blocks go. */
  readonly onInfo?: ((message: string) => void) | undefined;
  /** Ends the start. */
  readonly signal?: AbortSignal | undefined;
}

export class InferenceEngine {
  /** Null with --skip-tokenizer-init: token ids in, token ids out. */
  readonly tokenizer: Tokenizer | null;
  /** Null where the model has none. */
  readonly chatTemplate: ChatTemplate | null;
  /** What the model's files say of the tokenizer. */
  readonly tokenizerInfo: TokenizerInfo;
  /** Null where the model reads only text. */
  readonly imageInputs: ImageInputs | null;
  /** How the model writes thoughts and calls of functions. */
  readonly answerFormats: AnswerFormats;
  /** From generation_config.json: the values of fields that a request leaves out. */
  readonly samplingDefaults: SamplingDefaults;
  readonly limits: ModelLimits;
  /** Decides which callers a server lets in; programs have the engine to themselves. */
  readonly admission: Admission;
  /** What the requests of a server may have in memory. */
  readonly heldImages = new HeldImages();
  readonly adapters: Adapters;
  readonly constraints: ConstraintCompiler;
  /** Null where no KV blocks are exchanged. */
  readonly transfers: KvTransfers | null;
  readonly #engines: EngineGroup;
  readonly #config: EngineConfig;
  /** By rank of the engine; none where nobody measures. */
  #observers: readonly EngineObserver[] = [];
  #numRequests = 0;
  #nextId = 0;

  private constructor(
    engines: EngineGroup,
    transfers: KvTransfers | null,
    { tokenizer, chatTemplate, tokenizerInfo, imageInputs, answerFormats, samplingDefaults }: ModelText,
    limits: ModelLimits,
    config: EngineConfig,
  ) {
    this.#engines = engines;
    this.transfers = transfers;
    this.tokenizer = tokenizer;
    this.chatTemplate = chatTemplate;
    this.tokenizerInfo = tokenizerInfo;
    this.imageInputs = engines.info.encoderCosts === null ? null : imageInputs;
    this.answerFormats = answerFormats;
    this.samplingDefaults = samplingDefaults;
    this.limits = limits;
    this.#config = config;
    this.constraints = new ConstraintCompiler(this, config.structuredOutputs);
    const { maxQueuedRequests, dataParallelSize } = config;
    const maxNumSeqs = engines.info.maxNumSeqs * dataParallelSize;
    this.admission = new Admission({ maxNumSeqs, maxQueuedRequests });
    this.adapters = new Adapters(engines, config.lora, engines.adapters);
  }

  /**
   * Starts the engine threads and loads model and tokenizer side by side.
   * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
   */
  static async start(config: EngineConfig, options: InferenceEngineOptions = {}): Promise<InferenceEngine> {
    const failure = new AbortController();
    const { signal } = options;
    const giveUp = (): void => failure.abort();
    signal?.addEventListener('abort', giveUp, { once: true });
    const starting = EngineGroup.start(config, options, failure.signal);
    // Ignore: awaited below, behind the errors of options and small files.
    starting.catch(() => {});
    try {
      const { readModelText } = await import('./model-text.ts');
      const { onWarning } = options;
      const text = await readModelText(config, onWarning);
      const engines = await starting;
      const { maxModelLen, vocabSize } = engines.info;
      for (const notice of foreignIdNotices(text, vocabSize)) onWarning?.(notice);
      const isKnown = (id: number): boolean => id >= 0 && id < vocabSize;
      const limits = {
        maxModelLen,
        vocabSize,
        eosTokenIds: text.eosTokenIds.filter(isKnown),
        suppressedTokenIds: text.suppressedTokenIds.filter(isKnown),
        maxOutputTokens: text.maxOutputTokens,
        maxLogprobs: config.maxLogprobs,
      };
      // Whoever exchanges KV blocks has one engine.
      const transfers = await KvTransfers.start(config.kvTransfer, engines.clients[0], {
        onError: options.onTransferError,
        onWarning,
        onInfo: options.onInfo,
      });
      return new InferenceEngine(engines, transfers, text, limits, config);
    } catch (error) {
      failure.abort();
      await starting.then(
        (engines) => engines.close(),
        () => {},
      );
      throw error;
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }

  /** The same of each engine, but for its threads: those of the first. */
  get info(): EngineInfo {
    return this.#engines.info;
  }

  /** Engines that compute, each prompt one of them. */
  get numEngines(): number {
    return this.#engines.clients.length;
  }

  /** Of the KV cache of each engine, in the spelling of the options. */
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

  /** Images that one prompt may have; null where the model reads only text, whatever is allowed. */
  get maxImages(): number | null {
    const { maxImages } = this.#config;
    return this.imageInputs === null && maxImages > 0 ? null : maxImages;
  }

  /** Hosts that images may be fetched from; none are all that are public. */
  get mediaDomains(): readonly string[] {
    return this.#config.allowedMediaDomains;
  }

  /** Whether tokens are guessed ahead. */
  get speculates(): boolean {
    return this.#config.speculative !== null;
  }

  /** Resolves when an engine thread has ended by itself: the process should end too. */
  get died(): Promise<EngineDeadError> {
    return this.#engines.died;
  }

  get isAlive(): boolean {
    return this.#engines.isAlive;
  }

  /** From now on they are told about requests: one for each engine, by rank. */
  observe(...observers: readonly EngineObserver[]): void {
    this.#observers = observers;
    for (const [rank, client] of this.#engines.clients.entries()) {
      client.onStep = (numTokens) => observers[rank]?.step(numTokens);
    }
  }

  /** @throws InvalidRequestError where there is no engine of that rank. */
  expectRank(rank: number): void {
    const { numEngines } = this;
    if (Number.isInteger(rank) && rank >= 0 && rank < numEngines) return;
    const ranks = numEngines === 1 ? 'there is one engine, 0' : `the engines are 0 to ${numEngines - 1}`;
    throw new InvalidRequestError(`X-data-parallel-rank: ${ranks} (--data-parallel-size)`, {
      param: 'X-data-parallel-rank',
    });
  }

  /**
   * Tokenises and checks a request.
   * @throws InvalidRequestError when it is empty, too long, out of the vocabulary or needs a missing tokenizer; the reason of
   * `options.signal` when it is aborted.
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
        ? ['embeddings', '/v1/embeddings, or embed() in a program']
        : ['scores of texts', '/v1/rerank or /score, or score() in a program'];
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
    const { caller, group, rank } = ticket ?? NO_TICKET;
    const ids = { id: this.#nextId++, caller, group, priority };
    const request = { ...POOLED, ...ids, promptTokenIds, pooling: { secondTextStart } };
    const place = this.#engines.place({ ...request, numSequences: 1, readsCache: true }, rank);
    const observer = this.#observers[place.rank] ?? null;
    const onSampleEnded = observePrompt(observer, 1, ticket);
    const times = new SampleTimes(observer, { arrivedAt, promptTokenIds, stop: POOLED.stop }, onSampleEnded);
    const window = ticket?.window ?? new SampleWindow(Number.POSITIVE_INFINITY);
    return runPooled(place.client, { request, times, window, signal }).finally(place.leave);
  }

  /** Whether requests may ask to be served earlier or later than others. */
  get hasPriorities(): boolean {
    return this.#config.schedulingPolicy === 'priority';
  }

  /** Forgets every cached block; false while requests run: an engine that has some forgets nothing. */
  resetPrefixCache(): Promise<boolean> {
    return this.#engines.resetPrefixCache();
  }

  /** Of all engines together. */
  async stats(): Promise<EngineStats> {
    return sumOfStats(await this.statsByEngine());
  }

  /** By rank; what waits on this thread is told of the first. */
  async statsByEngine(): Promise<EngineStats[]> {
    const here = { heldBack: this.admission.numHeldBack, kvTransfer: this.transfers?.stats ?? null };
    const there = await this.#engines.stats();
    return there.map((stats, rank) => ({ ...stats, ...(rank === 0 ? here : NOTHING_HERE) }));
  }

  /** Aborts what is in flight, says goodbye to other instances, ends the engine threads and frees their memory. */
  async close(): Promise<void> {
    await Promise.all([this.chatTemplate?.close(), this.constraints.close(), this.transfers?.close()]);
    await this.#engines.close();
    await Promise.all([this.tokenizer?.close(), this.imageInputs?.close()]);
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
    const place = this.#placeOf(request, ticket ?? NO_TICKET);
    const observer = this.#observers[place.rank] ?? null;
    const onSampleEnded = observePrompt(observer, requests.length, ticket);
    const samples = requests.map((engineRequest, index) => {
      const processor = new OutputProcessor(index, request, this.tokenizer);
      const times = new SampleTimes(observer, request, onSampleEnded);
      const onEnd = (): void => leaves[index]!();
      return engineSample(place.client, { request: engineRequest, processor, times, queue, onEnd });
    });
    const window = ticket?.window ?? new SampleWindow(Number.POSITIVE_INFINITY);
    // One message for all that start at once: what they share is copied once.
    const atOnce: RequestListener[] = [];
    let start = (sample: RequestListener): void => void atOnce.push(sample);
    const leaves = samples.map((sample) => window.enter(() => start(sample)));
    start = (sample) => {
      // Prompts of one request end one after the other: a place that one gives up is of no use to the next.
      if (!signal?.aborted) place.client.add([sample]);
    };
    place.client.add(atOnce);
    const withdraw = (): void => {
      place.client.abort(requests);
      for (const sample of samples) sample.onWithdrawn();
      // The last first: a place that is given up must not go to a sample that is withdrawn, too.
      for (const leave of leaves.toReversed()) leave();
      place.leave();
    };
    return { withdraw };
  }

  #placeOf(request: PreparedRequest, { rank }: Pick<Ticket, 'rank'>): Place {
    const { params, numPromptLogprobs } = request;
    const isScored = numPromptLogprobs !== null;
    return this.#engines.place({ ...request, numSequences: params.n, readsCache: !isScored }, rank);
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

/** @returns what is to be told of each of its samples. */
function observePrompt(
  observer: EngineObserver | null,
  numSamples: number,
  ticket: Ticket | null,
): (sample: EndedSample) => void {
  observer?.prompt(numSamples);
  const countEnd = promptEnds(numSamples, (mostTokens) => observer?.promptEnded(mostTokens));
  return (sample) => {
    countEnd(sample);
    ticket?.onSampleEnded(sample);
  };
}

/** Vocabularies are made longer than their tokenizers, for the sake of kernels, but by far less. */
const LEAST_TOKENIZED = 0.9;

/** What tells that files do not belong together, and shows late or not at all while requests come. */
function foreignIdNotices({ tokenizer, eosTokenIds }: ModelText, vocabSize: number): string[] {
  const known = `the model knows those below ${vocabSize} (vocab_size in config.json)`;
  const numIds = tokenizer?.vocabSize ?? vocabSize;
  const ids = `the tokenizer has ids up to ${numIds - 1}, and ${known}`;
  const unknownEnds = eosTokenIds.filter((id) => id >= vocabSize);
  return [
    ...(numIds > vocabSize ? [`${ids}: prompts with others are refused; ${OF_ANOTHER}`] : []),
    ...(numIds < vocabSize * LEAST_TOKENIZED
      ? [`${ids}: answers may hold tokens without a text; ${OF_ANOTHER}`]
      : []),
    ...(unknownEnds.length > 0
      ? [
          `no answer can end with the tokens ${unknownEnds.join(', ')} (eos_token_id), for ${known}: mend generation_config.json, ` +
            'config.json or tokenizer_config.json, whichever names them',
        ]
      : []),
  ];
}

const OF_ANOTHER = 'is it the tokenizer of another model?';
