// The results of `LLM` for one prompt, in the protocol's spelling.

import type { CompletedSample } from '../engine/completed-sample.ts';
import type { OutputDelta, PositionLogprobs } from '../engine/inference-engine.ts';
import {
  type AnswerDelta,
  type AnswerDeltas,
  type AnswerFieldOptions,
  answerFields,
} from '../parsers/answer-fields.ts';
import type { FinishReason } from '../sampling/finish-reason.ts';

/** How probable a token was. */
export interface Logprob {
  /** Natural logarithm, of the model's own distribution before penalties and temperature. */
  readonly logprob: number;
  /** 1 is the most probable. */
  readonly rank: number;
  /** Null without a tokenizer. */
  readonly decoded_token: string | null;
}

/** By token id: the token itself first, then the most probable ones at its position. In JSON an object by id. */
export class TokenLogprobs extends Map<number, Logprob> {
  /** `JSON.stringify` would make an empty object of a Map. */
  toJSON(): Record<string, Logprob> {
    return Object.fromEntries(this);
  }
}

/** The answer of a chat as a message: it can be added to the conversation as it is. */
export interface AnswerMessage {
  readonly role: 'assistant';
  /** Null where the model only thought or called functions. */
  readonly content: string | null;
  /** What the model thought. */
  readonly reasoning: string | null;
  readonly tool_calls: readonly ToolCall[];
}

export interface ToolCall {
  readonly id: string;
  readonly type: 'function';
  /** Arguments are JSON text. */
  readonly function: { readonly name: string; readonly arguments: string };
}

/** One of the n samples of a prompt. */
export interface CompletionOutput {
  readonly index: number;
  /** All of it, as the model wrote it. */
  readonly text: string;
  /** With the end or stop token, where one ended it. */
  readonly token_ids: readonly number[];
  /** Sum over the tokens; null where no logprobs were asked for. */
  readonly cumulative_logprob: number | null;
  /** One entry a token; null where none were asked for. */
  readonly logprobs: readonly TokenLogprobs[] | null;
  readonly finish_reason: FinishReason;
  /** The stop string or stop token that ended it; null for the end token and for length. */
  readonly stop_reason: number | string | null;
}

/** One of the n answers to a conversation. */
export interface ChatCompletionOutput extends CompletionOutput {
  /** The parts of the text. */
  readonly message: AnswerMessage;
}

/** What `LLM.stream` yields: what one step of the engine added to one of the n samples. */
export interface CompletionDelta extends Omit<CompletionOutput, 'cumulative_logprob' | 'finish_reason'> {
  /** Empty where the tokens are part of a character, or may become a stop string. */
  readonly text: string;
  /** Null until the last delta of this sample. */
  readonly finish_reason: FinishReason | null;
  /** Of `token_ids`, those of thoughts. */
  readonly num_reasoning_tokens: number;
  readonly num_prompt_tokens: number;
  /** Prompt tokens that came from the prefix cache. */
  readonly num_cached_tokens: number;
}

/** What `LLM.streamChat` yields. */
export interface ChatCompletionDelta extends CompletionDelta {
  /** What is new in the parts of the answer. */
  readonly delta: AnswerDelta;
}

/** What `LLM.generate` gives for a prompt; what `LLM.chat` gives is a `ChatRequestOutput`. */
export interface RequestOutput<Output extends CompletionOutput = CompletionOutput> {
  readonly request_id: string;
  /** Null where the prompt was given as token ids. */
  readonly prompt: string | null;
  readonly prompt_token_ids: readonly number[];
  /** One entry a token of the prompt, null for the first; null where none were asked for. */
  readonly prompt_logprobs: readonly (TokenLogprobs | null)[] | null;
  /** n entries, in order of their index. */
  readonly outputs: readonly Output[];
  /** Prompt tokens that came from the prefix cache. */
  readonly num_cached_tokens: number;
}

export type ChatRequestOutput = RequestOutput<ChatCompletionOutput>;

export function toCompletionDelta(delta: OutputDelta, numPromptTokens: number): CompletionDelta {
  const { finish_reason, numReasoningTokens, numCachedTokens } = delta;
  return {
    ...outputPart(delta),
    finish_reason,
    num_reasoning_tokens: numReasoningTokens,
    num_prompt_tokens: numPromptTokens,
    num_cached_tokens: numCachedTokens,
  };
}

/** @param answer the sample so far. */
export function toChatDelta(
  delta: OutputDelta,
  numPromptTokens: number,
  answer: AnswerDeltas,
): ChatCompletionDelta {
  const { text, parts } = delta;
  const added = answer.next(parts ?? (text === '' ? [] : [{ kind: 'content', text }]));
  return { ...toCompletionDelta(delta, numPromptTokens), delta: added };
}

/** What an output and each of its deltas have. */
function outputPart({ index, text, tokenIds, logprobs, stop_reason }: OutputDelta) {
  return { index, text, token_ids: tokenIds, logprobs: logprobs?.map(toTokenLogprobs) ?? null, stop_reason };
}

/** Fields of the output that come from the samples of its prompt. */
export function outputFields<Output extends CompletionOutput>(
  samples: readonly CompletedSample[],
  toOutput: (sample: CompletedSample) => Output,
): Pick<RequestOutput<Output>, 'prompt_logprobs' | 'outputs' | 'num_cached_tokens'> {
  const { promptLogprobs = null, numCachedTokens = 0 } = samples[0] ?? {};
  return {
    prompt_logprobs: promptLogprobs?.map((one) => one && toTokenLogprobs(one)) ?? null,
    outputs: samples.map(toOutput),
    num_cached_tokens: numCachedTokens,
  };
}

export function toCompletionOutput(sample: CompletedSample): CompletionOutput {
  const cumulative_logprob = sample.logprobs?.reduce((sum, { logprob }) => sum + logprob, 0) ?? null;
  return { ...outputPart(sample), cumulative_logprob, finish_reason: sample.finish_reason };
}

export function toChatOutput(sample: CompletedSample, answer: AnswerFieldOptions): ChatCompletionOutput {
  return { ...toCompletionOutput(sample), message: toMessage(sample, answer) };
}

function toMessage({ text, parts, index }: CompletedSample, answer: AnswerFieldOptions): AnswerMessage {
  const { content, reasoning, tool_calls } = answerFields(
    parts ?? [{ kind: 'content', text }],
    answer,
    index,
  );
  return { role: 'assistant', content, reasoning, tool_calls };
}

export function toTokenLogprobs(position: PositionLogprobs): TokenLogprobs {
  const map = new TokenLogprobs();
  for (const { tokenId, logprob, rank, token } of [position, ...position.top]) {
    if (!map.has(tokenId)) map.set(tokenId, { logprob, rank, decoded_token: token?.text ?? null });
  }
  return map;
}
