// Offline inference: a list of prompts in, a list of texts out, with the same engine as the server and no HTTP.

import { type LLMOptions, toEngineConfig } from '../config/llm-options.ts';
import { didYouMean } from '../config/suggest.ts';
import { beamSearch, prepareBeamSearch } from '../engine/beam-search.ts';
import { InferenceEngine, type PreparedRequest, type Prompt } from '../engine/inference-engine.ts';
import { InvalidRequestError } from '../errors.ts';
import { withFolders } from '../models/model-folder.ts';
import { type BeamSearchInput, resolveBeamSearchParams } from '../sampling/beam-search-params.ts';
import {
  resolveSamplingParams,
  SAMPLING_FIELD_NAMES,
  type SamplingInput,
  type SamplingParams,
} from '../sampling/sampling-params.ts';
import type { ChatMessage } from '../tokenizer/tokenizer.ts';
import { sharedAbortController } from '../util/shared-abort.ts';
import { type BeamSearchOutput, describeBeams } from './beam-search-output.ts';
import { type BatchProgress, startProgress } from './progress.ts';
import { type NormalisedPrompt, normalisePrompts, type PromptsInput } from './prompts.ts';
import { OutputCollector, type RequestOutput } from './request-output.ts';

/** What the protocol gives a program that names no max_tokens. */
const DEFAULT_MAX_TOKENS = 16;

/** One set of sampling fields for all prompts, or one each; null takes the model's own defaults. */
export type SamplingParamsInput = SamplingInput | readonly SamplingInput[] | null;

export interface GenerateOptions {
  /** Show a progress bar on stderr where it is a terminal; the default. */
  readonly useProgressBar?: boolean;
}

export interface ChatOptions extends GenerateOptions {
  /** Open the assistant's turn at the end of the prompt; the default. */
  readonly addGenerationPrompt?: boolean;
  /** Further variables for the template. */
  readonly chatTemplateKwargs?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly requestId: string;
  readonly text: string | null;
  readonly prepared: PreparedRequest;
}

export class LLM {
  readonly #engine: Promise<InferenceEngine>;
  readonly #maxNumSeqs: number;
  #numRequests = 0;

  /**
   * Starts to load the model at once; the first call waits for it, and is where a failure to load is thrown.
   * @throws ConfigError for an unknown or wrong option.
   */
  constructor(options: LLMOptions) {
    const config = toEngineConfig(options);
    this.#maxNumSeqs = config.maxNumSeqs;
    this.#engine = withFolders(config).then((local) => InferenceEngine.start(local));
    this.#engine.catch(() => {});
  }

  /**
   * Completes prompts.
   * @returns one output a prompt, in their order.
   * @throws InvalidRequestError before anything runs, where a prompt or a field is wrong.
   */
  async generate(
    prompts: PromptsInput,
    samplingParams: SamplingParamsInput = null,
    options: GenerateOptions = {},
  ): Promise<RequestOutput[]> {
    const engine = await this.#engine;
    const normalised = normalisePrompts(prompts);
    const params = resolveAll(samplingParams, normalised.length, engine);
    const jobs = await Promise.all(
      normalised.map((prompt, index) => this.#prepare(engine, prompt.text, toPrompt(prompt), params[index]!)),
    );
    return this.#run(engine, jobs, options);
  }

  /**
   * Answers conversations: one list of messages, or a list of such lists. Tool calls are not parsed.
   * @returns one output a conversation, in their order; `prompt` is what the chat template made.
   */
  async chat(
    conversations: readonly ChatMessage[] | readonly (readonly ChatMessage[])[],
    samplingParams: SamplingParamsInput = null,
    options: ChatOptions = {},
  ): Promise<RequestOutput[]> {
    const engine = await this.#engine;
    const template = engine.chatTemplate;
    if (template === null) throw new InvalidRequestError('the model has no chat template: use generate()');
    const list = isConversationList(conversations) ? conversations : [conversations];
    const params = resolveAll(samplingParams, list.length, engine);
    const { addGenerationPrompt = true, chatTemplateKwargs: variables = {} } = options;
    const jobs = await Promise.all(
      list.map((messages, index) => {
        const text = template.render(messages, { addGenerationPrompt, variables });
        return this.#prepare(engine, text, { text, addSpecialTokens: false }, params[index]!);
      }),
    );
    return this.#run(engine, jobs, options);
  }

  /**
   * The most probable continuations of each prompt, found by beam search.
   * @returns one list of sequences a prompt, in the order of the prompts, the best sequence first.
   * @throws InvalidRequestError before anything runs, where a prompt or a field is wrong.
   */
  async beamSearch(prompts: PromptsInput, params: BeamSearchInput): Promise<BeamSearchOutput[]> {
    const engine = await this.#engine;
    const resolved = resolveBeamSearchParams(params, engine.limits);
    const prepared = await Promise.all(
      normalisePrompts(prompts).map((prompt) => prepareBeamSearch(engine, toPrompt(prompt), resolved)),
    );
    const failure = sharedAbortController();
    const search = async (promptTokenIds: readonly number[]): Promise<BeamSearchOutput> => {
      const beams = await beamSearch(engine, promptTokenIds, resolved, { signal: failure.signal });
      return { sequences: await describeBeams(engine, beams) };
    };
    try {
      return await Promise.all(prepared.map(search));
    } catch (error) {
      failure.abort(error);
      throw error;
    }
  }

  /** Ends the engine; calls in flight are rejected. */
  async close(): Promise<void> {
    const engine = await this.#engine.catch(() => null);
    await engine?.close();
  }

  async #prepare(
    engine: InferenceEngine,
    text: string | null,
    prompt: Prompt,
    params: SamplingParams,
  ): Promise<Job> {
    const requestId = String(this.#numRequests++);
    return { requestId, text, prepared: await engine.prepare({ prompt, params }) };
  }

  /** Keeps the engine's seats full without handing it everything at once; the first failure ends the rest. */
  async #run(
    engine: InferenceEngine,
    jobs: readonly Job[],
    options: GenerateOptions,
  ): Promise<RequestOutput[]> {
    const outputs = new Array<RequestOutput>(jobs.length);
    const progress = await startProgress(jobs.length, options.useProgressBar ?? true);
    const failure = sharedAbortController();
    const queue = jobs.entries();
    const work = async (): Promise<void> => {
      for (const [index, job] of queue)
        outputs[index] = await complete(engine, job, failure.signal, progress);
    };
    try {
      await Promise.all(Array.from({ length: 2 * this.#maxNumSeqs }, work));
    } catch (error) {
      failure.abort(error);
      throw error;
    } finally {
      progress.stop();
    }
    return outputs;
  }
}

async function complete(
  engine: InferenceEngine,
  { requestId, text, prepared }: Job,
  signal: AbortSignal,
  progress: BatchProgress,
): Promise<RequestOutput> {
  const collector = new OutputCollector(prepared.params.n);
  for await (const delta of engine.generate(prepared, signal)) collector.add(delta);
  progress.advance(prepared.promptTokenIds.length, collector.numTokens);
  return {
    request_id: requestId,
    prompt: text,
    prompt_token_ids: prepared.promptTokenIds,
    ...collector.finish(),
  };
}

function toPrompt({ text, tokenIds }: NormalisedPrompt): Prompt {
  return tokenIds === null ? { text: text ?? '', addSpecialTokens: true } : { tokenIds };
}

/** One complete set a prompt. Fields that a given set leaves out take the protocol's defaults, not the model's. */
function resolveAll(input: SamplingParamsInput, count: number, engine: InferenceEngine): SamplingParams[] {
  if (input === null) {
    const defaults = { max_tokens: DEFAULT_MAX_TOKENS, ...engine.samplingDefaults };
    return Array.from({ length: count }, () => resolveSamplingParams({}, defaults));
  }
  const list = isParamsList(input) ? input : Array.from({ length: count }, () => input);
  if (list.length !== count) {
    throw new InvalidRequestError(
      `there must be one set of sampling parameters, or one for each of the ${count} prompts, got ${list.length}`,
      { param: 'samplingParams' },
    );
  }
  return list.map((given) => {
    checkFields(given);
    // A max_tokens of null asks for all that fits; only one left out gets the default.
    const defaults = given.max_tokens === null ? {} : { max_tokens: DEFAULT_MAX_TOKENS };
    return resolveSamplingParams(given, defaults);
  });
}

/** A program has no log to look for a mistyped field in: it is told at once. */
function checkFields(given: unknown): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new InvalidRequestError(
      `sampling parameters must be an object such as { temperature: 0 }, got ${JSON.stringify(given)}`,
      { param: 'samplingParams' },
    );
  }
  const unknown = Object.keys(given).find((field) => !SAMPLING_FIELD_NAMES.includes(field));
  if (unknown === undefined) return;
  throw new InvalidRequestError(
    `there is no sampling parameter ${unknown}${didYouMean(unknown, SAMPLING_FIELD_NAMES)}`,
    { param: unknown },
  );
}

function isParamsList(input: SamplingInput | readonly SamplingInput[]): input is readonly SamplingInput[] {
  return Array.isArray(input);
}

function isConversationList(
  input: readonly ChatMessage[] | readonly (readonly ChatMessage[])[],
): input is readonly (readonly ChatMessage[])[] {
  return input.length === 0 || Array.isArray(input[0]);
}
