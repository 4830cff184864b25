// Makes a prompt ready for a pooling model: tokenises it, cuts it where that is asked for, and checks it against the model.

import { InvalidRequestError } from '../../errors.ts';
import type { ScoringConfig } from '../../models/pooling/pooling-config.ts';
import {
  type JoinOptions,
  type Texts,
  type Tokenizer,
  TooManyTokensError,
} from '../../tokenizer/tokenizer.ts';
import type { Client } from '../../util/client.ts';
import { numberList } from '../../util/number-list.ts';
import type { ModelLimits, Prompt } from '../input-processor.ts';

/** Two texts are one prompt for a model that scores how well they fit. */
export type PoolingPrompt = Prompt | { readonly pair: readonly [first: string, second: string] };

export interface PoolingOptions extends Client {
  /** The field that the prompt came in, for errors. */
  readonly param: string;
  readonly addSpecialTokens?: boolean | undefined;
  /** Put before a text, and nothing before token ids; left out, nothing. */
  readonly before?: string | undefined;
  /** Most tokens that are kept, from the beginning; -1 is what the model can read, null refuses what is longer. */
  readonly truncateTo?: number | null | undefined;
  /** What the caller calls that, for errors. */
  readonly truncateName?: string | undefined;
  /** Lower is served earlier; 0 where it is left out. */
  readonly priority?: number | undefined;
}

/** A prompt that has passed every check. */
export interface PreparedPooling {
  /** By performance.now(): before it was tokenised. */
  readonly arrivedAt: number;
  readonly promptTokenIds: readonly number[];
  readonly secondTextStart: number | null;
  readonly priority: number;
}

interface PoolingModel {
  readonly tokenizer: Tokenizer | null;
  readonly limits: ModelLimits;
  /** How two texts become one prompt. */
  readonly pairPrompt: ScoringConfig['prompt'];
}

/** @throws InvalidRequestError for an empty or too long prompt, an id outside the vocabulary, or text without a tokenizer; the reason of an abort. */
export async function preparePooling(
  prompt: PoolingPrompt,
  options: PoolingOptions,
  model: PoolingModel,
): Promise<PreparedPooling> {
  const arrivedAt = performance.now();
  const { priority = 0, param, signal } = options;
  signal?.throwIfAborted();
  const { ids, secondTextStart } = await tokenise(prompt, options, model);
  if (ids.length === 0) throw new InvalidRequestError(`${param} has no tokens; give at least one`, { param });
  checkIds(ids, model.limits.vocabSize, param);
  return { arrivedAt, promptTokenIds: numberList(ids), secondTextStart, priority };
}

interface Tokens {
  readonly ids: readonly number[] | Int32Array;
  readonly secondTextStart: number | null;
}

async function tokenise(
  prompt: PoolingPrompt,
  options: PoolingOptions,
  { tokenizer, limits: { maxModelLen }, pairPrompt }: PoolingModel,
): Promise<Tokens> {
  const { param, addSpecialTokens = true, before = '', truncateTo = null, signal, caller } = options;
  const isCut = truncateTo !== null;
  const maxTokens = maxTokensOf(options, maxModelLen);
  if ('tokenIds' in prompt) {
    const { tokenIds } = prompt;
    if (tokenIds.length > maxTokens && !isCut) throw tooLong(String(tokenIds.length), maxModelLen, options);
    return { ids: tokenIds.slice(0, maxTokens), secondTextStart: null };
  }
  if (tokenizer === null) {
    throw new InvalidRequestError(`${param} must be token ids: the model is served without a tokenizer`, {
      param,
    });
  }
  const texts: Texts = 'text' in prompt ? [before + prompt.text] : prompt.pair;
  const minTokens = tokenizer.minTokens(texts.join(''));
  if (!isCut && minTokens > maxModelLen) throw tooLong(`at least ${minTokens}`, maxModelLen, options);
  try {
    if ('pair' in prompt && pairPrompt === 'qwen3') {
      return await joinForQwen3(prompt.pair, { maxTokens, isCut, signal, caller }, tokenizer);
    }
    return await tokenizer.encodeJoined(texts, { addSpecialTokens, maxTokens, isCut, signal, caller });
  } catch (error) {
    if (!(error instanceof TooManyTokensError)) throw error;
    throw isCut ? noRoom(maxTokens, options) : tooLong(error.numTokens, maxModelLen, options);
  }
}

/** The words around a pair that Qwen3's rerankers were trained on (Zhang et al., "Qwen3 Embedding", 2025). */
const QWEN3 = {
  before:
    '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. ' +
    'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n',
  task: 'Given a web search query, retrieve relevant passages that answer the query',
  after: '<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n',
};

/** Each part is tokenised by itself, as it was in training. */
async function joinForQwen3(
  [query, document]: readonly [string, string],
  { maxTokens, ...given }: Omit<JoinOptions, 'addSpecialTokens'>,
  tokenizer: Tokenizer,
): Promise<Tokens> {
  const [before, after] = await tokenizer.encodeAll([QWEN3.before, QWEN3.after]);
  const around = before!.length + after!.length;
  const text = `<Instruct>: ${QWEN3.task}\n<Query>: ${query}\n<Document>: ${document}`;
  const options = { ...given, addSpecialTokens: false, maxTokens: Math.max(0, maxTokens - around) };
  const { ids } = await tokenizer.encodeJoined([text], options).catch((error: unknown) => {
    throw error instanceof TooManyTokensError ? error.with(around) : error;
  });
  return { ids: [...before!, ...ids, ...after!], secondTextStart: null };
}

const TRUNCATE = 'truncate_prompt_tokens';

function maxTokensOf(
  { truncateTo = null, truncateName = TRUNCATE }: PoolingOptions,
  maxModelLen: number,
): number {
  if (truncateTo === null || truncateTo === -1) return maxModelLen;
  if (truncateTo <= maxModelLen) return truncateTo;
  throw new InvalidRequestError(
    `${truncateName} must be at most the model's context of ${maxModelLen} tokens, got ${truncateTo}`,
    { param: truncateName },
  );
}

function noRoom(maxTokens: number, { truncateName = TRUNCATE }: PoolingOptions): InvalidRequestError {
  return new InvalidRequestError(
    `${truncateName} must leave room for the special tokens of this model and one of each text, got ${maxTokens}`,
    { param: truncateName },
  );
}

function tooLong(
  numTokens: string,
  maxModelLen: number,
  { param, truncateName = TRUNCATE }: PoolingOptions,
): InvalidRequestError {
  return new InvalidRequestError(
    `${param} has ${numTokens} tokens, and this model reads at most ${maxModelLen}: shorten it, or set ` +
      `${truncateName} to -1 to have its end cut off`,
    { param },
  );
}

function checkIds(ids: readonly number[] | Int32Array, vocabSize: number, param: string): void {
  const wrong = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (wrong < 0) return;
  throw new InvalidRequestError(
    `${param}: token ids must be integers from 0 to ${vocabSize - 1}, got ${ids[wrong]} at index ${wrong}`,
    { param },
  );
}
