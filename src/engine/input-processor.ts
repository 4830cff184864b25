// Makes a request ready for the engine: tokenises it, checks it against the model, and fills in every default.

import { InvalidRequestError } from '../errors.ts';
import type { PromptImage } from '../images/image-processor.ts';
import { adapterKeys, type ExtraKey } from '../kv-cache/prefix-hash.ts';
import type { AnswerReader } from '../parsers/answer-formats.ts';
import { type BadWords, groupBadWords, type LogitRules } from '../sampling/logit-rules.ts';
import type { SamplingParams } from '../sampling/sampling-params.ts';
import type { RepetitionRule } from '../scheduler/repetition.ts';
import type { PromptRequest, StopRule } from '../scheduler/request.ts';
import { type Tokenizer, TooManyTokensError } from '../tokenizer/tokenizer.ts';
import type { Client } from '../util/client.ts';
import { numberList } from '../util/number-list.ts';
import type { ServedAdapter } from './adapters.ts';
import type { ConstraintCompiler } from './constraints/compiler.ts';
import { type ImageInputs, imageKeys } from './image-inputs.ts';

/** Long lists may be packed. */
type TokenIds = readonly number[] | Int32Array;

export type Prompt = ({ readonly text: string } | { readonly tokenIds: TokenIds }) & {
  /** Files of images, in the order of their marks in the text. */
  readonly images?: readonly Uint8Array[];
};

/** Names one prompt of a request for all instances that share the request. */
interface TransferKey {
  /** X-Request-Id as it came. */
  readonly requestId: string;
  readonly promptIndex: number;
}

/** What a request may say besides its prompt and its sampling parameters. */
export interface RequestOptions extends Client {
  /** Put the special tokens around a text that the model expects there; the default. */
  readonly addSpecialTokens?: boolean | undefined;
  /** Computes the request in the place of the model alone. */
  readonly adapter?: ServedAdapter | null | undefined;
  /** What the prompt's keys and values depend on besides its tokens and its adapter, in the order of positions. */
  readonly extraKeys?: readonly ExtraKey[] | undefined;
  /** Images among the tokens of a prompt that has been made ready before: `extraKeys` has theirs. */
  readonly images?: readonly PromptImage[] | undefined;
  /** Lower is served earlier; 0 where it is left out. */
  readonly priority?: number | undefined;
  /** Reads the answers; null where they are plain text. */
  readonly answer?: AnswerReader | null | undefined;
  readonly transferKey?: TransferKey | null | undefined;
  /** By sample: tokens that its answer begins with, as if they had just been sampled. */
  readonly resume?: readonly (readonly number[])[] | null | undefined;
}

/** A request that has passed every check: what the engine thread gets of it, and what the main thread keeps. */
export interface PreparedRequest extends PromptRequest {
  /** By performance.now(): before it was tokenised. */
  readonly arrivedAt: number;
  readonly params: SamplingParams;
  readonly adapter: ServedAdapter | null;
  /** Null where the answers are plain text. */
  readonly answer: AnswerReader | null;
  /** Null where the request is this instance's alone. */
  readonly transferKey: TransferKey | null;
  /** One list a sample; null where every answer begins from nothing. */
  readonly resume: readonly (readonly number[])[] | null;
}

/** Most characters of a text that is to be truncated: tokenising far more than fits would be wasted. */
const MIN_CUT_TEXT = 65_536;
const CUT_TEXT_A_TOKEN = 8;

/** The limits of the model that requests are checked against. */
export interface ModelLimits {
  readonly maxModelLen: number;
  readonly vocabSize: number;
  /** The first one ends a sequence silently; the others are reported as stop_reason; each is in the vocabulary. */
  readonly eosTokenIds: readonly number[];
  /** In no answer, but where the request lets nothing else come; each is in the vocabulary. */
  readonly suppressedTokenIds: readonly number[];
  /** No answer may be longer; null is no limit but the context. */
  readonly maxOutputTokens: number | null;
  /** Most log-probabilities a token that a request may ask for; -1 is no limit. */
  readonly maxLogprobs: number;
}

interface InputModel {
  readonly tokenizer: Tokenizer | null;
  /** Null where the model reads only text. */
  readonly imageInputs: ImageInputs | null;
  readonly limits: ModelLimits;
  readonly constraints: ConstraintCompiler;
}

/**
 * Tokenises, checks, and turns words into numbers.
 * @throws InvalidRequestError for an empty or too long prompt, an id outside the vocabulary, too many logprobs, rules
 * that leave no token to sample, a constraint that cannot be enforced, or text without a tokenizer; OverloadedError where
 * too many others are made ready; the reason of an abort.
 */
export async function prepareRequest(
  prompt: Prompt,
  params: SamplingParams,
  options: RequestOptions,
  model: InputModel,
): Promise<PreparedRequest> {
  const { tokenizer, limits, constraints } = model;
  const arrivedAt = performance.now();
  const { vocabSize } = limits;
  const {
    adapter = null,
    extraKeys = [],
    priority = 0,
    answer = null,
    transferKey = null,
    resume = null,
  } = options;
  checkTextFields(params, tokenizer);
  checkLogprobs('logprobs', params.logprobs, limits);
  checkLogprobs('prompt_logprobs', params.prompt_logprobs, limits);
  const { promptTokenIds, images, keys } = await readPrompt(prompt, options, params, model);
  checkIds(promptTokenIds, vocabSize, 'prompt');
  checkLogprobTokens(params.logprob_token_ids ?? [], limits);
  checkIds(params.stop_token_ids, vocabSize, 'stop_token_ids');
  checkAllowed(params.allowed_token_ids ?? [], vocabSize);
  checkIds(Object.keys(params.logit_bias).map(Number), vocabSize, 'logit_bias');
  checkChoice(params, limits);
  const stop = stopRule(params, limits, promptTokenIds.length);
  if (resume !== null) checkResume(resume, params.n, stop, vocabSize);
  return {
    arrivedAt,
    params,
    answer,
    transferKey,
    resume,
    promptTokenIds,
    adapter,
    adapterId: adapter?.id ?? null,
    extraKeys: [...(adapter === null ? [] : adapterKeys(adapter.digest)), ...extraKeys, ...keys],
    ...(images.length > 0 && { images }),
    priority,
    stop,
    constraint: params.constraint === null ? null : await constraints.compile(params.constraint, options),
    rules: logitRules(params, limits, await badWords(params.bad_words, limits, tokenizer)),
    numPromptLogprobs: numTop(params.prompt_logprobs, vocabSize),
    sampling: {
      temperature: params.temperature,
      topK: params.top_k,
      topP: params.top_p,
      minP: params.min_p,
      numLogprobs: numTop(params.logprobs, vocabSize),
      logprobTokenIds: params.logprob_token_ids,
    },
  };
}

function stopRule(params: SamplingParams, limits: ModelLimits, promptLength: number): StopRule {
  const [eosTokenId = null, ...otherEos] = params.ignore_eos ? [] : limits.eosTokenIds;
  const room = limits.maxModelLen - promptLength;
  return {
    eosTokenId,
    stopTokenIds: [...params.stop_token_ids, ...otherEos],
    minTokens: params.min_tokens,
    maxTokens: Math.min(room, params.max_tokens ?? room, limits.maxOutputTokens ?? room),
    repetition: repetitionRule(params),
  };
}

function repetitionRule({ repetition_detection: asked }: SamplingParams): RepetitionRule | null {
  if (asked === null) return null;
  const { min_pattern_size: minPatternSize, max_pattern_size: maxPatternSize, min_count: minCount } = asked;
  return { minPatternSize, maxPatternSize, minCount };
}

/** Null where the logits stay as they are. */
function logitRules(params: SamplingParams, limits: ModelLimits, badWords: BadWords): LogitRules | null {
  const rules: LogitRules = {
    repetitionPenalty: params.repetition_penalty,
    frequencyPenalty: params.frequency_penalty,
    presencePenalty: params.presence_penalty,
    biases: Object.entries(params.logit_bias).map(([id, bias]) => [Number(id), bias] as const),
    allowedTokenIds: params.allowed_token_ids === null ? null : Int32Array.from(params.allowed_token_ids),
    minTokens: params.min_tokens,
    endTokenIds: endTokenIds(params, limits),
    badWords,
  };
  const isPenalised =
    rules.repetitionPenalty !== 1 || rules.frequencyPenalty !== 0 || rules.presencePenalty !== 0;
  const isNeeded =
    isPenalised ||
    rules.biases.length + badWords.lone.length + badWords.longer.size + rules.minTokens > 0 ||
    rules.allowedTokenIds !== null ||
    params.constraint !== null;
  return isNeeded ? rules : null;
}

/** Tokens that are forbidden before min_tokens. With ignore_eos the end tokens end nothing, but are no text either. */
function endTokenIds(params: SamplingParams, limits: ModelLimits): number[] {
  return [...new Set([...limits.eosTokenIds, ...params.stop_token_ids])];
}

function numTop(asked: number | null, vocabSize: number): number | null {
  if (asked === null) return null;
  return asked === -1 ? vocabSize : Math.min(asked, vocabSize);
}

/** How many tokens of the prompt are kept; null keeps all. */
export function numKept(
  {
    truncate_prompt_tokens: wanted,
    max_tokens,
  }: Pick<SamplingParams, 'truncate_prompt_tokens' | 'max_tokens'>,
  maxModelLen: number,
): number | null {
  if (wanted === null) return null;
  if (wanted > maxModelLen) {
    throw new InvalidRequestError(
      `truncate_prompt_tokens must be at most the model's context of ${maxModelLen} tokens, got ${wanted}`,
      { param: 'truncate_prompt_tokens' },
    );
  }
  return wanted === -1 ? Math.max(1, maxModelLen - (max_tokens ?? 1)) : wanted;
}

/** Those of the request, each as it is and after a space, and the tokens that the model never says. */
async function badWords(
  words: readonly string[],
  { suppressedTokenIds }: ModelLimits,
  tokenizer: Tokenizer | null,
): Promise<BadWords> {
  const suppressed = suppressedTokenIds.map((id) => [id]);
  if (tokenizer === null) return groupBadWords(suppressed);
  const forms = [...new Set(words.flatMap((word) => [word, ` ${word.trimStart()}`]))];
  const encoded = (await tokenizer.encodeAll(forms)).filter((ids) => ids.length > 0);
  return groupBadWords([...suppressed, ...encoded]);
}

function checkTextFields(params: SamplingParams, tokenizer: Tokenizer | null): void {
  if (tokenizer !== null) return;
  const instead = { stop: ': use stop_token_ids', bad_words: ': use logit_bias' };
  for (const [param, hint] of Object.entries(instead)) {
    const words = param === 'stop' ? params.stop : params.bad_words;
    if (words.length === 0) continue;
    throw new InvalidRequestError(`${param} needs a tokenizer, and this server runs without one${hint}`, {
      param,
    });
  }
}

function checkLogprobs(param: string, asked: number | null, { maxLogprobs, vocabSize }: ModelLimits): void {
  const wanted = asked === -1 ? vocabSize : (asked ?? 0);
  if (maxLogprobs === -1 || wanted <= maxLogprobs) return;
  const all = asked === -1 ? ` (the whole vocabulary, ${vocabSize})` : '';
  throw new InvalidRequestError(
    `${param} must be at most ${maxLogprobs}, got ${asked}${all}; --max-logprobs sets the limit`,
    { param },
  );
}

function checkLogprobTokens(ids: readonly number[], { maxLogprobs, vocabSize }: ModelLimits): void {
  checkIds(ids, vocabSize, 'logprob_token_ids');
  if (maxLogprobs === -1 || ids.length <= maxLogprobs) return;
  throw new InvalidRequestError(
    `logprob_token_ids must have at most ${maxLogprobs} ids, got ${ids.length}; --max-logprobs sets the limit`,
    { param: 'logprob_token_ids' },
  );
}

/** While the answer is short, min_tokens forbids the end tokens: something else must be allowed. */
function checkChoice(params: SamplingParams, limits: ModelLimits): void {
  const { allowed_token_ids: allowed, min_tokens } = params;
  if (allowed === null || min_tokens === 0) return;
  const ends = new Set(endTokenIds(params, limits));
  if (!allowed.every((id) => ends.has(id))) return;
  throw new InvalidRequestError(
    `allowed_token_ids has nothing but end and stop tokens, and min_tokens is ${min_tokens}: no token could be sampled`,
    { param: 'allowed_token_ids' },
  );
}

interface ReadPrompt {
  readonly promptTokenIds: readonly number[];
  readonly images: readonly PromptImage[];
  /** What keys and values depend on because of the images that were read. */
  readonly keys: readonly ExtraKey[];
}

/** What the model is to see. */
async function readPrompt(
  prompt: Prompt,
  options: RequestOptions,
  params: SamplingParams,
  { tokenizer, limits, imageInputs }: InputModel,
): Promise<ReadPrompt> {
  const files = prompt.images ?? [];
  if (files.length === 0) {
    const promptTokenIds = await tokenise(prompt, options, params, tokenizer, limits);
    return { promptTokenIds, images: options.images ?? [], keys: [] };
  }
  const refuse = (why: string) => new InvalidRequestError(why, { param: 'messages' });
  if (imageInputs === null) throw refuse('this model reads only text: leave images out');
  if (!('text' in prompt)) throw refuse('images are for prompts of text, and this one is token ids');
  if (params.truncate_prompt_tokens !== null)
    throw refuse('a prompt with images cannot be truncated: leave truncate_prompt_tokens out');
  const { text, images } = await imageInputs.read(prompt.text, files, options);
  const promptTokenIds = await tokenise({ text }, options, params, tokenizer, limits);
  const placed = imageInputs.place(promptTokenIds, images);
  return { promptTokenIds, images: placed, keys: imageKeys(placed) };
}

/** The tokens of the prompt that the model is to see. */
async function tokenise(
  prompt: Prompt,
  options: RequestOptions,
  params: SamplingParams,
  tokenizer: Tokenizer | null,
  { maxModelLen }: ModelLimits,
): Promise<readonly number[]> {
  const kept = numKept(params, maxModelLen);
  const ids =
    'tokenIds' in prompt
      ? prompt.tokenIds
      : await tokeniseText(prompt.text, options, tokenizer, kept, maxModelLen);
  checkLength(Math.min(ids.length, kept ?? ids.length), maxModelLen);
  return truncated(ids, kept, params.truncation_side);
}

function truncated(ids: TokenIds, kept: number | null, cutAt: 'left' | 'right'): readonly number[] {
  const isWhole = kept === null || kept >= ids.length;
  const rest = isWhole ? ids : cutAt === 'left' ? ids.slice(-kept) : ids.slice(0, kept);
  return Array.isArray(rest) ? rest : numberList(rest);
}

/** @param kept null where a text that is too long is refused. */
async function tokeniseText(
  text: string,
  { addSpecialTokens = true, signal, caller }: RequestOptions,
  tokenizer: Tokenizer | null,
  kept: number | null,
  maxModelLen: number,
): Promise<number[]> {
  if (tokenizer === null) {
    throw new InvalidRequestError('the prompt must be token ids: the model is served without a tokenizer', {
      param: 'prompt',
    });
  }
  // Megabytes of text would keep a core busy for seconds, only to be refused.
  const minTokens = tokenizer.minTokens(text);
  if (kept === null && minTokens >= maxModelLen) throw tooLong(`at least ${minTokens}`, maxModelLen);
  const maxCut = Math.max(MIN_CUT_TEXT, CUT_TEXT_A_TOKEN * maxModelLen);
  if (kept !== null && text.length > maxCut) {
    throw new InvalidRequestError(
      `the prompt has ${text.length} characters, and truncate_prompt_tokens is for at most ${maxCut}: send only what is to be kept`,
      { param: 'prompt' },
    );
  }
  const maxTokens = kept === null ? maxModelLen - 1 : undefined;
  try {
    return await tokenizer.encode(text, { addSpecialTokens, maxTokens, signal, caller });
  } catch (error) {
    throw error instanceof TooManyTokensError ? tooLong(error.numTokens, maxModelLen) : error;
  }
}

function checkAllowed(ids: readonly number[], vocabSize: number): void {
  checkIds(ids, vocabSize, 'allowed_token_ids');
  if (ids.length <= vocabSize) return;
  throw new InvalidRequestError(
    `allowed_token_ids must have at most ${vocabSize} ids, as many as the vocabulary, got ${ids.length}`,
    { param: 'allowed_token_ids' },
  );
}

function checkIds(ids: readonly number[], vocabSize: number, param: string): void {
  const wrong = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (wrong < 0) return;
  throw new InvalidRequestError(
    `${param}: token ids must be integers from 0 to ${vocabSize - 1}, got ${ids[wrong]} at index ${wrong}`,
    { param },
  );
}

/** @throws InvalidRequestError for answers that this request cannot have begun. */
function checkResume(
  resume: readonly (readonly number[])[],
  numSamples: number,
  { maxTokens }: StopRule,
  vocabSize: number,
): void {
  if (resume.length !== numSamples) {
    throw new InvalidRequestError(
      `there must be one list of tokens a sample (${numSamples}), got ${resume.length}`,
      { param: 'resume' },
    );
  }
  for (const ids of resume) {
    checkIds(ids, vocabSize, 'resume');
    if (ids.length <= maxTokens) continue;
    throw new InvalidRequestError(
      `an answer of this request has at most ${maxTokens} tokens, one with ${ids.length} cannot be resumed`,
      { param: 'resume' },
    );
  }
}

function checkLength(numTokens: number, maxModelLen: number): void {
  if (numTokens === 0) {
    throw new InvalidRequestError('the prompt has no tokens; give at least one', { param: 'prompt' });
  }
  if (numTokens >= maxModelLen) throw tooLong(String(numTokens), maxModelLen);
}

function tooLong(numTokens: string, maxModelLen: number): InvalidRequestError {
  return new InvalidRequestError(
    `the prompt has ${numTokens} tokens, the model's context is ${maxModelLen}: ` +
      `at most ${maxModelLen - 1} leave room for an answer`,
    { param: 'prompt' },
  );
}
