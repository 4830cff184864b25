// The deltas of one prompt, from wherever they come: the engine, a beam search, or nowhere where the echo alone was
// asked for. Whole answers collect them into samples, streams write them as they are.

import { type Beam, beamSearch } from '../engine/beam-search.ts';
import type { InferenceEngine, OutputDelta, PositionLogprobs } from '../engine/inference-engine.ts';
import type { Generation, GenerationRun } from './generation.ts';
import type { FinishReason } from './protocol/usage.ts';

/** One choice of a whole answer. */
export interface Sample {
  readonly text: string;
  readonly tokenIds: readonly number[];
  /** One entry a token; null where nobody asked. */
  readonly logprobs: readonly PositionLogprobs[] | null;
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  readonly numCachedTokens: number;
  readonly finish_reason: FinishReason;
  readonly stop_reason: number | string | null;
}

type Deltas = AsyncIterable<OutputDelta> | Iterable<OutputDelta>;

/** What the engine adds to the samples of prompt number `prompt`, in the order in which it comes. */
export function deltasOf(
  engine: InferenceEngine,
  generation: Generation,
  prompt: number,
  run: GenerationRun,
): Deltas {
  const request = generation.prompts[prompt]!;
  const { n, prompt_logprobs } = request.params;
  if (generation.isEchoOnly && prompt_logprobs === null) return echoOnly(n);
  const deltas = engine.generate(request, run.signal, run.ticket);
  const complete = prompt_logprobs === null || n === 1 ? deltas : sharePromptLogprobs(deltas, n);
  return generation.isEchoOnly ? withoutAnswer(complete) : complete;
}

/** Joins the deltas of each of `n` samples; `opening` is what every text begins with. */
export async function collectSamples(deltas: Deltas, n: number, opening: string): Promise<Sample[]> {
  const parts = Array.from({ length: n }, (): OutputDelta[] => []);
  for await (const delta of deltas) parts[delta.index]!.push(delta);
  return parts.map((own): Sample => {
    const last = own.at(-1);
    if (last === undefined || last.finish_reason === null) throw new Error('a sample has no end');
    return {
      text: opening + own.map(({ text }) => text).join(''),
      tokenIds: own.flatMap(({ tokenIds }) => tokenIds),
      logprobs: last.logprobs === null ? null : own.flatMap(({ logprobs }) => logprobs ?? []),
      promptLogprobs: own[0]!.promptLogprobs,
      numCachedTokens: last.numCachedTokens,
      finish_reason: last.finish_reason,
      stop_reason: last.stop_reason,
    };
  });
}

/** The best beams of a prompt, as samples. */
export async function searchSamples(
  engine: InferenceEngine,
  generation: Generation,
  prompt: number,
  run: GenerationRun,
): Promise<Sample[]> {
  const { promptTokenIds, cacheSalt, priority } = generation.prompts[prompt]!;
  const beams = await beamSearch(engine, promptTokenIds, generation.beamSearch!, {
    ...run,
    cacheSalt,
    priority,
  });
  return beams.map((beam) => sampleOf(beam, engine, generation, prompt));
}

/** The end token stays only where that was asked for, and is no text unless special tokens are. */
function sampleOf(beam: Beam, engine: InferenceEngine, generation: Generation, prompt: number): Sample {
  const { params, promptTokenIds } = generation.prompts[prompt]!;
  const keepsEnd = beam.finishReason === 'length' || params.include_stop_str_in_output;
  const tokenIds = beam.tokenIds.slice(beam.promptLength, keepsEnd ? undefined : -1);
  const decoder = engine.tokenizer?.decodeStream({
    skipSpecialTokens: params.skip_special_tokens,
    spacesBetweenSpecialTokens: params.spaces_between_special_tokens,
    promptTokenIds,
  });
  const text = decoder === undefined ? '' : decoder.push(tokenIds) + decoder.flush();
  return {
    text: (generation.echoes[prompt]?.text ?? '') + text,
    tokenIds,
    logprobs: null,
    promptLogprobs: null,
    numCachedTokens: 0,
    finish_reason: beam.finishReason,
    stop_reason: null,
  };
}

/** Only the first sample brings the prompt's log-probabilities: the others wait until they are there. */
async function* sharePromptLogprobs(
  deltas: AsyncIterable<OutputDelta>,
  n: number,
): AsyncGenerator<OutputDelta, void, undefined> {
  let promptLogprobs: OutputDelta['promptLogprobs'] = null;
  const early: OutputDelta[] = [];
  const hasBegun = new Array<boolean>(n).fill(false);
  for await (const delta of deltas) {
    early.push(delta);
    promptLogprobs ??= delta.promptLogprobs;
    if (promptLogprobs === null) continue;
    for (const ready of early.splice(0)) {
      yield hasBegun[ready.index] ? ready : { ...ready, promptLogprobs };
      hasBegun[ready.index] = true;
    }
  }
}

/** The engine has had to run to tell of the prompt; what it has made beside that was not asked for. */
async function* withoutAnswer(
  deltas: AsyncIterable<OutputDelta>,
): AsyncGenerator<OutputDelta, void, undefined> {
  for await (const delta of deltas) {
    const logprobs = delta.logprobs && [];
    yield { ...delta, text: '', tokenIds: [], logprobs, finish_reason: 'length', stop_reason: null };
  }
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
