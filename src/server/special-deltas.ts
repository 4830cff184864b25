// Deltas of answers that are more, or less, than what the engine samples: beams, and echoes of the prompt alone.

import { beamSearch } from '../engine/beam-search.ts';
import type { InferenceEngine, OutputDelta, PreparedRequest } from '../engine/inference-engine.ts';
import { adapterKeys } from '../kv-cache/prefix-hash.ts';
import type { BeamSearchParams } from '../sampling/beam-search-params.ts';
import type { GenerationRun } from './parsed-request.ts';

/** The best beams as samples, each in one delta. */
export async function* searchBeams(
  engine: InferenceEngine,
  { promptTokenIds, params, adapter, answer, extraKeys: keys, images, priority }: PreparedRequest,
  search: BeamSearchParams,
  run: GenerationRun,
): AsyncGenerator<OutputDelta, void, undefined> {
  // Each step is prepared as a request of its own, which puts the adapter's keys before these.
  const extraKeys = adapter === null ? keys : keys.slice(adapterKeys(adapter.digest).length);
  const beams = await beamSearch(engine, promptTokenIds, search, {
    ...run,
    adapter,
    extraKeys,
    images,
    priority,
  });
  for (const [index, beam] of beams.entries()) {
    // The end token is kept only where that was asked for, and is no text unless special tokens are.
    const keepsEnd = beam.finishReason === 'length' || params.include_stop_str_in_output;
    const tokenIds = beam.tokenIds.slice(beam.promptLength, keepsEnd ? undefined : -1);
    const decoder = engine.tokenizer?.decodeStream({
      skipSpecialTokens: params.skip_special_tokens,
      spacesBetweenSpecialTokens: params.spaces_between_special_tokens,
      visibleTokens: answer?.visibleTokens,
      promptTokenIds,
    });
    const text = decoder === undefined ? '' : decoder.push(tokenIds) + decoder.flush();
    const parser = answer?.open() ?? null;
    const isCut = beam.finishReason === 'length';
    const parts = parser && [...parser.push(text), ...parser.finish(isCut)];
    yield { ...ENDED, index, text, parts, tokenIds, finish_reason: beam.finishReason };
  }
}

/** Only the first sample brings the prompt's log-probabilities: the others wait until they are there. */
export async function* sharePromptLogprobs(
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

/** The engine ran one token for the prompt's log-probabilities: that token was not asked for. */
export async function* withoutAnswer(
  deltas: AsyncIterable<OutputDelta>,
): AsyncGenerator<OutputDelta, void, undefined> {
  for await (const delta of deltas) {
    const logprobs = delta.logprobs && [];
    yield { ...delta, text: '', tokenIds: [], logprobs, finish_reason: 'length', stop_reason: null };
  }
}

/** One delta a sample: the end of an answer that adds nothing. */
export function* echoOnly(n: number): Generator<OutputDelta, void, undefined> {
  for (let index = 0; index < n; index++) yield { ...ENDED, index };
}

const ENDED = {
  text: '',
  parts: null,
  tokenIds: [],
  numReasoningTokens: 0,
  numCachedTokens: 0,
  logprobs: null,
  promptLogprobs: null,
  finish_reason: 'length',
  stop_reason: null,
  isCallCut: false,
} as const;
