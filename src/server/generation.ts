// Runs the prompts of one HTTP request through the engine: to the end for a whole answer, or delta by delta into an
// event stream. Both generation routes use it; what the bytes look like is their format's affair.

import type { InferenceEngine, OutputDelta, PreparedRequest } from '../engine/inference-engine.ts';
import { InvalidRequestError } from '../errors.ts';
import type { SseStream } from '../http/sse.ts';
import type { AnswerFormat } from './answer-format.ts';
import { type FinishReason, usageOf } from './protocol/usage.ts';

/** Samples of one request over all its prompts. */
const MAX_CHOICES = 16_384;

/** A checked request: nothing of it can be refused any more. */
export interface Generation {
  readonly prompts: readonly PreparedRequest[];
  /** Text that each answer begins with, one a prompt: the echo, or nothing. */
  readonly echoes: readonly string[];
  /** The echo alone was asked for: nothing is generated. */
  readonly isEchoOnly: boolean;
  readonly returnTokenIds: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
}

/** One choice of a whole answer. */
export interface Sample {
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly finish_reason: FinishReason;
  readonly stop_reason: number | string | null;
}

/** @throws InvalidRequestError where the prompts and samples together are too many. */
export function checkChoices(numPrompts: number, n: number): void {
  if (numPrompts * n <= MAX_CHOICES) return;
  throw new InvalidRequestError(
    `n times the number of prompts must be at most ${MAX_CHOICES}, got ${n} times ${numPrompts}`,
    { param: 'n' },
  );
}

/** The whole answer; choices are in the order of the prompts, the samples of a prompt together. */
export async function generateBody(
  engine: InferenceEngine,
  generation: Generation,
  format: AnswerFormat,
  signal: AbortSignal,
): Promise<object> {
  const runs = generation.prompts.map((_, prompt) => collect(engine, generation, prompt, signal));
  const samples = (await Promise.all(runs)).flat();
  const completionTokens = samples.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  return format.body(samples, usageOf(promptTokensOf(generation), completionTokens));
}

/** Writes every event but the last; rejects where an error event is to end the stream. */
export async function generateEvents(
  engine: InferenceEngine,
  generation: Generation,
  format: AnswerFormat,
  sse: SseStream,
  signal: AbortSignal,
): Promise<void> {
  const runs = generation.prompts.map((_, prompt) =>
    streamPrompt(engine, generation, prompt, format, sse, signal),
  );
  const completionTokens = (await Promise.all(runs)).reduce((sum, tokens) => sum + tokens, 0);
  if (!generation.includeUsage) return;
  sse.write(format.usageEvent(usageOf(promptTokensOf(generation), completionTokens)));
}

async function collect(
  engine: InferenceEngine,
  generation: Generation,
  prompt: number,
  signal: AbortSignal,
): Promise<Sample[]> {
  const { params } = generation.prompts[prompt]!;
  const texts = Array.from({ length: params.n }, () => [generation.echoes[prompt] ?? '']);
  const tokenIds = Array.from({ length: params.n }, (): number[] => []);
  const ends: Pick<Sample, 'finish_reason' | 'stop_reason'>[] = [];
  for await (const delta of deltas(engine, generation, prompt, signal)) {
    const { index, finish_reason, stop_reason } = delta;
    texts[index]!.push(delta.text);
    tokenIds[index]!.push(...delta.tokenIds);
    if (finish_reason !== null) ends[index] = { finish_reason, stop_reason };
  }
  return texts.map((pieces, index) => ({
    text: pieces.join(''),
    tokenIds: tokenIds[index]!,
    ...ends[index]!,
  }));
}

/** Completion tokens of the prompt's samples. */
async function streamPrompt(
  engine: InferenceEngine,
  generation: Generation,
  prompt: number,
  format: AnswerFormat,
  sse: SseStream,
  signal: AbortSignal,
): Promise<number> {
  const { params, promptTokenIds } = generation.prompts[prompt]!;
  const numTokens = new Array<number>(params.n).fill(0);
  const hasBegun = new Array<boolean>(params.n).fill(false);
  for await (const delta of deltas(engine, generation, prompt, signal)) {
    const { index } = delta;
    numTokens[index]! += delta.tokenIds.length;
    // Half a character, or the beginning of what may become a stop string: nothing to show yet.
    if (delta.text === '' && delta.finish_reason === null && !generation.returnTokenIds) continue;
    const usage = generation.continuousUsage ? usageOf(promptTokenIds.length, numTokens[index]!) : null;
    const events = format.events(prompt * params.n + index, delta, !hasBegun[index], usage);
    hasBegun[index] = true;
    if (!sse.write(events)) await sse.drained();
  }
  return numTokens.reduce((sum, tokens) => sum + tokens, 0);
}

function deltas(
  engine: InferenceEngine,
  generation: Generation,
  prompt: number,
  signal: AbortSignal,
): AsyncIterable<OutputDelta> | Iterable<OutputDelta> {
  const request = generation.prompts[prompt]!;
  return generation.isEchoOnly ? echoOnly(request.params.n) : engine.generate(request, signal);
}

function* echoOnly(n: number): Generator<OutputDelta, void, undefined> {
  for (let index = 0; index < n; index++) {
    yield {
      index,
      text: '',
      tokenIds: [],
      numCachedTokens: 0,
      logprobs: null,
      promptLogprobs: null,
      finish_reason: 'length',
      stop_reason: null,
    };
  }
}

function promptTokensOf(generation: Generation): number {
  return generation.prompts.reduce((sum, { promptTokenIds }) => sum + promptTokenIds.length, 0);
}
