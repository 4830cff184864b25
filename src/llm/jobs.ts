// The prompts or conversations of a call: made ready several at once, run as many at once as keep the engine's seats full. An
// error says which of them it is about.

import { programError } from '../config/program-words.ts';
import { type CompletedSample, collectSamples } from '../engine/completed-sample.ts';
import type { InferenceEngine, PreparedRequest } from '../engine/inference-engine.ts';
import { messageOf } from '../errors.ts';
import { type BatchProgress, startProgress } from './progress.ts';
import { type CompletionOutput, outputFields, type RequestOutput } from './request-output.ts';

export interface Job {
  readonly requestId: string;
  /** Null where the prompt is token ids. */
  readonly text: string | null;
  readonly prepared: PreparedRequest;
}

/** The lists that a call may have several items of, as its errors call them. */
type ListName = 'prompts' | 'messages';

/** Enough for the threads of the tokenizer, few enough to leave others a turn. */
const PREPARED_AT_ONCE = 8;

/** In their order, whoever is ready first; an abort ends the preparation, too. */
export async function prepareEach<T, P>(
  list: readonly T[],
  name: ListName,
  signal: AbortSignal,
  prepare: (item: T, index: number) => Promise<P>,
): Promise<P[]> {
  const prepared: P[] = [];
  const rest = list.entries();
  const work = async (): Promise<void> => {
    for (const [index, item] of rest) {
      signal.throwIfAborted();
      prepared[index] = await atPlace(prepare(item, index), placeIn(list, name, index));
    }
  };
  await Promise.all(Array.from({ length: PREPARED_AT_ONCE }, work));
  return prepared;
}

interface RunOptions<J, Output> {
  readonly name: ListName;
  readonly toOutput: (sample: CompletedSample, job: J) => Output;
  readonly signal: AbortSignal;
  readonly useProgressBar: boolean | undefined;
  /** Jobs that are in the engine at once. */
  readonly numAtOnce: number;
}

/** @returns one output a job, in their order. */
export async function runJobs<J extends Job, Output extends CompletionOutput>(
  engine: InferenceEngine,
  jobs: readonly J[],
  options: RunOptions<J, Output>,
): Promise<RequestOutput<Output>[]> {
  const { name, useProgressBar = true, numAtOnce } = options;
  const outputs = new Array<RequestOutput<Output>>(jobs.length);
  const progress = await startProgress(jobs.length, useProgressBar);
  const queue = jobs.entries();
  const work = async (): Promise<void> => {
    for (const [index, job] of queue) {
      const output = complete(engine, job, options, progress);
      outputs[index] = await atPlace(output, placeIn(jobs, name, index));
    }
  };
  try {
    await Promise.all(Array.from({ length: numAtOnce }, work));
  } finally {
    progress.stop();
  }
  return outputs;
}

async function complete<J extends Job, Output extends CompletionOutput>(
  engine: InferenceEngine,
  job: J,
  { signal, toOutput }: RunOptions<J, Output>,
  progress: BatchProgress,
): Promise<RequestOutput<Output>> {
  const { requestId, text, prepared } = job;
  const samples = await collectSamples(engine.generate(prepared, signal));
  const numTokens = samples.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  progress.advance(prepared.promptTokenIds.length, numTokens);
  return {
    request_id: requestId,
    prompt: text,
    prompt_token_ids: prepared.promptTokenIds,
    ...outputFields(samples, (sample) => toOutput(sample, job)),
  };
}

/** Of a single prompt nobody needs to be told which it is. */
function placeIn({ length }: readonly unknown[], name: ListName, index: number): string {
  return length > 1 ? `${name}[${index}]` : '';
}

async function atPlace<T>(work: Promise<T>, place: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    // An image that cannot be had says by itself where it is.
    const isNamed = messageOf(error).startsWith(place);
    throw programError(error, isNamed ? '' : `${place}: `);
  }
}
