// Offline inference: a list of prompts in, a list of texts out, with the same engine as the server and no HTTP.

import { randomUUID } from 'node:crypto';
import { type LLMOptions, toEngineConfig } from '../config/llm-options.ts';
import { inProgramWords, programError } from '../config/program-words.ts';
import { beamSearch, prepareBeamSearch } from '../engine/beam-search.ts';
import type { CompletedSample } from '../engine/completed-sample.ts';
import {
  InferenceEngine,
  type OutputDelta,
  type PreparedRequest,
  type Prompt,
  type RequestOptions,
} from '../engine/inference-engine.ts';
import { planScores } from '../engine/pooling/score-plan.ts';
import { promptNamed } from '../engine/pooling/text-prompts.ts';
import { checkDimensions, toEmbedding } from '../engine/pooling/vectors.ts';
import { EngineDeadError, InvalidRequestError } from '../errors.ts';
import { fetchImages } from '../images/fetch-images.ts';
import { AnswerDeltas, type AnswerFieldOptions } from '../parsers/answer-fields.ts';
import { ToolUse } from '../parsers/tool-use.ts';
import {
  BEAM_SEARCH_FIELD_NAMES,
  type BeamSearchInput,
  type BeamSearchParams,
  parseBeamSearchFields,
  resolveBeamSearchParams,
} from '../sampling/beam-search-params.ts';
import type { SamplingInput } from '../sampling/sampling-fields.ts';
import type { SamplingParams } from '../sampling/sampling-params.ts';
import { type Conversation, reservedVariable } from '../tokenizer/chat-messages.ts';
import { abortable, sharedAbortController } from '../util/abortable.ts';
import { type AdapterInput, resolveAdapter, resolveAdapters } from './adapter-option.ts';
import { type BeamSearchOutput, describeBeams } from './beam-search-output.ts';
import {
  type BeamSearchOptions,
  beamSearchOptions,
  type ChatOptions,
  chatOptions,
  type EmbedOptions,
  embedOptions,
  type GenerateOptions,
  generateOptions,
  type ParsedChatOptions,
  readOptions,
  type ScoreOptions,
  type StreamChatOptions,
  type StreamOptions,
  scoreOptions,
  streamChatOptions,
  streamOptions,
} from './call-options.ts';
import { checkNames } from './check-names.ts';
import {
  type ChatMessageInput,
  type ConversationsInput,
  readConversation,
  readConversations,
} from './conversations.ts';
import { downloadWithBar } from './download-bar.ts';
import { type Job, prepareEach, runJobs } from './jobs.ts';
import { poolAll } from './pool-all.ts';
import type { EmbeddingRequestOutput, ScoringRequestOutput } from './pooling-output.ts';
import {
  type PromptInput,
  type PromptsInput,
  readPairs,
  readPrompt,
  readPrompts,
  textOf,
} from './prompts.ts';
import {
  type ChatCompletionDelta,
  type ChatRequestOutput,
  type CompletionDelta,
  type RequestOutput,
  toChatDelta,
  toChatOutput,
  toCompletionDelta,
  toCompletionOutput,
} from './request-output.ts';
import { resolveSets, type SamplingParamsInput } from './sampling-sets.ts';

interface ChatJob extends Job {
  readonly answer: AnswerFieldOptions;
}

/** A request that is ready to run, and what makes its deltas of those of the engine, in the order in which they come. */
interface OpenStream<Delta> {
  readonly prepared: PreparedRequest;
  toDelta(delta: OutputDelta): Delta;
}

type Open<Delta> = (
  engine: InferenceEngine,
  params: SamplingParams,
  own: RequestOptions,
) => Promise<OpenStream<Delta>>;

export class LLM {
  readonly #engine: Promise<InferenceEngine>;
  readonly #maxNumSeqs: number;
  /** Aborted by `close`, which waits for no download and no weights. */
  readonly #closing = sharedAbortController();
  #numRequests = 0;

  /**
   * Starts to load the model at once; the first call waits for it, and is where a failure to load is thrown.
   * @throws ConfigError for an unknown or wrong option, NotAvailableError for one of another server that svc cannot serve.
   */
  constructor(options: LLMOptions = {}) {
    const onWarning = (message: string): void => process.emitWarning(inProgramWords(message), 'SvcWarning');
    const config = toEngineConfig(options, process.env, onWarning);
    this.#maxNumSeqs = config.maxNumSeqs * config.dataParallelSize;
    const { signal } = this.#closing;
    this.#engine = downloadWithBar(config, signal)
      .then((local) => {
        signal.throwIfAborted();
        return InferenceEngine.start(local, { onWarning, signal });
      })
      .catch((error: unknown) => {
        throw signal.aborted ? signal.reason : programError(error);
      });
    this.#engine.catch(() => {});
  }

  /**
   * Completes prompts.
   * @returns one output a prompt, in their order.
   * @throws InvalidRequestError before anything runs, where a prompt, a field or an option is wrong.
   */
  async generate(
    prompts: PromptsInput,
    samplingParams: SamplingParamsInput = null,
    options: GenerateOptions = {},
  ): Promise<RequestOutput[]> {
    const { signal, useProgressBar, adapter } = readOptions('generate', generateOptions, options);
    return speaking(signal, async (ended) => {
      const engine = await this.#engine;
      const list = readPrompts(prompts, engine.maxImages);
      const params = resolveSets(samplingParams, list.length, engine.samplingDefaults);
      const adapters = await resolveAdapters(engine, adapter, list.length);
      const jobs = await prepareEach(list, 'prompts', ended, (prompt, index) =>
        this.#prepare(engine, prompt, params[index]!, { adapter: adapters[index], signal: ended }),
      );
      const run = { name: 'prompts', toOutput: toCompletionOutput, signal: ended, useProgressBar } as const;
      return runJobs(engine, jobs, { ...run, numAtOnce: 2 * this.#maxNumSeqs });
    });
  }

  /**
   * Answers conversations: one list of messages, or a list of such lists; `message` of an output has its thoughts and calls.
   * @returns one output a conversation, in their order; `prompt` is the text that the chat template made.
   */
  async chat(
    conversations: ConversationsInput,
    samplingParams: SamplingParamsInput = null,
    options: ChatOptions = {},
  ): Promise<ChatRequestOutput[]> {
    const { signal, useProgressBar, adapter, ...template } = readOptions('chat', chatOptions, options);
    return speaking(signal, async (ended) => {
      const engine = await this.#engine;
      const list = readConversations(conversations, engine.maxImages);
      const params = resolveSets(samplingParams, list.length, engine.samplingDefaults);
      const adapters = await resolveAdapters(engine, adapter, list.length);
      const jobs = await prepareEach(list, 'messages', ended, (conversation, index) => {
        const own = { adapter: adapters[index], signal: ended };
        return this.#prepareChat(engine, conversation, params[index]!, template, own);
      });
      const toOutput = (sample: CompletedSample, { answer }: ChatJob) => toChatOutput(sample, answer);
      const run = { name: 'messages', toOutput, signal: ended, useProgressBar } as const;
      return runJobs(engine, jobs, { ...run, numAtOnce: 2 * this.#maxNumSeqs });
    });
  }

  /**
   * Completes one prompt, token by token. Nothing starts before the first delta is asked for; leaving the loop ends
   * the request.
   * @throws InvalidRequestError with the first delta, where the prompt, a field or an option is wrong.
   */
  async *stream(
    prompt: PromptInput,
    samplingParams: SamplingInput | null = null,
    options: StreamOptions = {},
  ): AsyncGenerator<CompletionDelta, void, undefined> {
    const { signal, adapter } = readOptions('stream', streamOptions, options);
    const open: Open<CompletionDelta> = async (engine, params, own) => {
      const { prepared } = await this.#prepare(
        engine,
        readPrompt(prompt, 'prompt', engine.maxImages),
        params,
        own,
      );
      const numPromptTokens = prepared.promptTokenIds.length;
      return { prepared, toDelta: (delta) => toCompletionDelta(delta, numPromptTokens) };
    };
    yield* speakingStream(this.#stream(signal, samplingParams, adapter, open));
  }

  /** Answers one conversation, token by token; as `stream` does. */
  async *streamChat(
    messages: readonly ChatMessageInput[],
    samplingParams: SamplingInput | null = null,
    options: StreamChatOptions = {},
  ): AsyncGenerator<ChatCompletionDelta, void, undefined> {
    const { signal, adapter, ...template } = readOptions('streamChat', streamChatOptions, options);
    const open: Open<ChatCompletionDelta> = async (engine, params, own) => {
      const conversation = readConversation(messages, engine.maxImages);
      const { prepared, answer } = await this.#prepareChat(engine, conversation, params, template, own);
      const numPromptTokens = prepared.promptTokenIds.length;
      const samples = Array.from({ length: params.n }, (_, index) => new AnswerDeltas(answer, index));
      return { prepared, toDelta: (delta) => toChatDelta(delta, numPromptTokens, samples[delta.index]!) };
    };
    yield* speakingStream(this.#stream(signal, samplingParams, adapter, open));
  }

  /**
   * The most probable continuations of each prompt, found by beam search.
   * @returns one list of sequences a prompt, in the order of the prompts, the best sequence first.
   * @throws InvalidRequestError before anything runs, where a prompt, a field or an option is wrong.
   */
  async beamSearch(
    prompts: PromptsInput,
    params: BeamSearchInput,
    options: BeamSearchOptions = {},
  ): Promise<BeamSearchOutput[]> {
    const { signal, adapter } = readOptions('beamSearch', beamSearchOptions, options);
    return speaking(signal, async (ended) => {
      const engine = await this.#engine;
      const resolved = readBeamSearchParams(params, engine);
      const list = readPrompts(prompts, engine.maxImages);
      const adapters = await resolveAdapters(engine, adapter, list.length);
      const prepared = await prepareEach(list, 'prompts', ended, (prompt) =>
        prepareBeamSearch(engine, prompt, resolved, ended),
      );
      const search = async (prompt: PreparedRequest, index: number): Promise<BeamSearchOutput> => {
        const { promptTokenIds, extraKeys, images } = prompt;
        const run = { signal: ended, adapter: adapters[index], extraKeys, images };
        const beams = await beamSearch(engine, promptTokenIds, resolved, run);
        return { sequences: await describeBeams(engine, beams) };
      };
      return Promise.all(prepared.map(search));
    });
  }

  /**
   * Embeds prompts, with a model that was made for it.
   * @returns one output a prompt, in their order.
   * @throws InvalidRequestError before anything runs, where a prompt or an option is wrong or the model generates text.
   */
  async embed(prompts: PromptsInput, options: EmbedOptions = {}): Promise<EmbeddingRequestOutput[]> {
    const { signal, useProgressBar, ...given } = readOptions('embed', embedOptions, options);
    return speaking(signal, async (ended) => {
      const engine = await this.#poolingEngine();
      const config = engine.expectEmbedding();
      const dimensions = given.dimensions ?? null;
      checkDimensions(dimensions, config);
      const list = readPrompts(prompts, null);
      const before = promptNamed(config, given.promptName ?? null, 'promptName');
      const of = { param: 'the prompt', before, ...truncation(given), signal: ended };
      const prepared = await prepareEach(list, 'prompts', ended, (prompt) =>
        engine.preparePooling(prompt, of),
      );
      const run = { signal: ended, useProgressBar, numAtOnce: 2 * this.#maxNumSeqs };
      const pooled = await poolAll(engine, prepared, run);
      return pooled.map((values, index) => ({
        request_id: String(this.#numRequests++),
        prompt: textOf(list[index]!),
        prompt_token_ids: prepared[index]!.promptTokenIds,
        outputs: { embedding: toEmbedding(values, config, dimensions) },
      }));
    });
  }

  /**
   * Scores how well texts fit together: one text with each of several, or two lists text by text. A reranker reads both at
   * once; of an embedding model it is the cosine of the two embeddings.
   * @returns one output a pair, in the order of `second`.
   * @throws InvalidRequestError before anything runs, where a text or an option is wrong or the model generates text.
   */
  async score(
    first: string | readonly string[],
    second: string | readonly string[],
    options: ScoreOptions = {},
  ): Promise<ScoringRequestOutput[]> {
    const { signal, useProgressBar, ...given } = readOptions('score', scoreOptions, options);
    return speaking(signal, async (ended) => {
      const engine = await this.#poolingEngine();
      const texts = readPairs(first, second);
      const plan = await planScores(engine, texts, { ...truncation(given), signal: ended });
      const run = { signal: ended, useProgressBar, numAtOnce: 2 * this.#maxNumSeqs };
      const scores = plan.scoresOf(await poolAll(engine, plan.prompts, run));
      return scores.map((score) => ({ request_id: String(this.#numRequests++), outputs: { score } }));
    });
  }

  /** Ends the engine; calls in flight are rejected. */
  async close(): Promise<void> {
    this.#closing.abort(new EngineDeadError('the engine has been closed'));
    const engine = await this.#engine.catch(() => null);
    await engine?.close();
  }

  async #poolingEngine(): Promise<InferenceEngine> {
    const engine = await this.#engine;
    engine.expectPooling();
    return engine;
  }

  async #prepare(
    engine: InferenceEngine,
    prompt: Prompt,
    params: SamplingParams,
    options?: RequestOptions,
  ): Promise<Job> {
    const requestId = String(this.#numRequests++);
    const prepared = await engine.prepare(prompt, params, options);
    return { requestId, text: textOf(prompt), prepared };
  }

  async #prepareChat(
    engine: InferenceEngine,
    { messages, images }: Conversation,
    params: SamplingParams,
    { addGenerationPrompt = true, chatTemplateKwargs: variables = {}, ...given }: ParsedChatOptions,
    own: RequestOptions,
  ): Promise<ChatJob> {
    const template = engine.chatTemplate;
    if (template === null) throw new InvalidRequestError('the model has no chat template: use generate()');
    const reserved = reservedVariable(variables);
    if (reserved !== null) {
      throw new InvalidRequestError(
        `chatTemplateKwargs must not hold ${reserved}: the call itself says what it is`,
        { param: 'chatTemplateKwargs' },
      );
    }
    const { tools, toolChoice: tool_choice, parallelToolCalls: parallel_tool_calls } = given;
    const toolUse = new ToolUse({ tools, tool_choice, parallel_tool_calls }, engine.answerFormats);
    const text = await template.render(messages, {
      addGenerationPrompt,
      tools: toolUse.templateTools,
      variables,
    });
    const constraint = toolUse.constraint(params.constraint, text);
    const options = { ...own, answer: toolUse.reader(text), addSpecialTokens: false };
    const { mediaDomains: domains } = engine;
    const files =
      images.length > 0 && (await fetchImages(images, { domains, signal: own.signal, readsFiles: true }));
    const prompt = { text, ...(files && { images: files }) };
    const job = await this.#prepare(engine, prompt, { ...params, constraint }, options);
    return { ...job, answer: { id: randomUUID(), idLength: toolUse.idLength, includesReasoning: true } };
  }

  async *#stream<Delta>(
    signal: AbortSignal | undefined,
    samplingParams: SamplingInput | null,
    adapter: AdapterInput | null | undefined,
    open: Open<Delta>,
  ): AsyncGenerator<Delta, void, undefined> {
    const engine = await abortable(signal, () => this.#engine);
    const [params] = resolveSets(samplingParams, 1, engine.samplingDefaults);
    refusePromptLogprobs(params!);
    const own = { adapter: await abortable(signal, () => resolveAdapter(engine, adapter)), signal };
    const { prepared, toDelta } = await open(engine, params!, own);
    for await (const delta of engine.generate(prepared, signal)) {
      // What came before the abort is no longer wanted either.
      signal?.throwIfAborted();
      yield toDelta(delta);
    }
  }
}

/** As `abortable`; what is thrown names options as a program does. */
async function speaking<T>(
  signal: AbortSignal | undefined,
  work: (ended: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    return await abortable(signal, work);
  } catch (error) {
    throw programError(error);
  }
}

async function* speakingStream<T>(deltas: AsyncGenerator<T, void>): AsyncGenerator<T, void, undefined> {
  try {
    yield* deltas;
  } catch (error) {
    throw programError(error);
  }
}

function truncation({ truncatePromptTokens }: ScoreOptions) {
  return { truncateTo: truncatePromptTokens, truncateName: 'truncatePromptTokens' };
}

function readBeamSearchParams(given: BeamSearchInput, engine: InferenceEngine): BeamSearchParams {
  checkNames(given, {
    subject: 'beam search parameters',
    example: '{ beam_width: 4, max_tokens: 16 }',
    known: BEAM_SEARCH_FIELD_NAMES,
    refusal: (name) => `there is no beam search parameter ${name}`,
  });
  return resolveBeamSearchParams(parseBeamSearchFields(given), engine.limits);
}

function refusePromptLogprobs({ prompt_logprobs }: SamplingParams): void {
  if (prompt_logprobs === null) return;
  throw new InvalidRequestError('prompt_logprobs cannot be streamed: use generate()', {
    param: 'prompt_logprobs',
  });
}
