// Beam search on top of the engine: each live beam is an ordinary request for one token with the log-probabilities of
// its best continuations; the prefix cache makes that cheap.

import type { PromptImage } from '../images/image-processor.ts';
import type { ExtraKey } from '../kv-cache/prefix-hash.ts';
import type { BeamSearchParams } from '../sampling/beam-search-params.ts';
import type { FinishReason } from '../sampling/finish-reason.ts';
import { resolveSamplingParams } from '../sampling/sampling-params.ts';
import type { ServedAdapter } from './adapters.ts';
import type { InferenceEngine, PreparedRequest, Ticket } from './inference-engine.ts';
import type { Prompt } from './input-processor.ts';
import type { PositionLogprobs } from './token-logprobs.ts';

export interface Beam {
  /** The prompt, then what was found; with the end token where one ended it. */
  readonly tokenIds: readonly number[];
  readonly promptLength: number;
  /** One entry a found token. */
  readonly logprobs: readonly PositionLogprobs[];
  readonly cumulativeLogprob: number;
  /** An end token ended it; else it was cut at the length that was asked for. */
  readonly finishReason: FinishReason;
}

interface BeamSearchRun {
  readonly signal?: AbortSignal | undefined;
  readonly ticket?: Ticket | undefined;
  readonly adapter?: ServedAdapter | null | undefined;
  readonly extraKeys?: readonly ExtraKey[] | undefined;
  readonly images?: readonly PromptImage[] | undefined;
  readonly priority?: number | undefined;
}

/**
 * The prompt as the engine takes it, checked.
 * @throws InvalidRequestError for a prompt that is empty, too long or no text of this model; the reason of `signal` when it is aborted.
 */
export async function prepareBeamSearch(
  engine: InferenceEngine,
  prompt: Prompt,
  params: BeamSearchParams,
  signal?: AbortSignal,
): Promise<PreparedRequest> {
  return await engine.prepare(prompt, stepParams(engine, params), { signal });
}

/** A beam and one token more, not yet copied together: most of these are dropped. */
interface Candidate {
  readonly beam: Beam;
  readonly next: PositionLogprobs;
  readonly cumulativeLogprob: number;
}

/**
 * The best `beam_width` sequences, the best first. A sequence that reaches the model's context ends there.
 * @throws EngineDeadError when the engine ends first; the reason of `run.signal` when it is aborted.
 */
export async function beamSearch(
  engine: InferenceEngine,
  promptTokenIds: readonly number[],
  params: BeamSearchParams,
  run: BeamSearchRun = {},
): Promise<Beam[]> {
  const { beam_width, max_tokens, length_penalty } = params;
  const endTokenIds = params.ignore_eos ? [] : engine.limits.eosTokenIds;
  const isEnd = ({ next }: Candidate): boolean => endTokenIds.includes(next.tokenId);
  const start = { tokenIds: promptTokenIds, promptLength: promptTokenIds.length, logprobs: [] };
  let live: Beam[] = [{ ...start, cumulativeLogprob: 0, finishReason: 'length' }];
  const completed: Beam[] = [];
  const room = engine.limits.maxModelLen - promptTokenIds.length;
  for (let step = 0; step < Math.min(max_tokens, room) && live.length > 0; step += 1) {
    const asked = live.map((beam) => candidatesOf(engine, beam, params, run));
    const candidates = (await Promise.all(asked)).flat();
    completed.push(...candidates.filter(isEnd).map((candidate) => extend(candidate, 'stop')));
    live = candidates
      .filter((candidate) => !isEnd(candidate))
      .sort((x, y) => y.cumulativeLogprob - x.cumulativeLogprob)
      .slice(0, beam_width)
      .map((candidate) => extend(candidate, 'length'));
  }
  return [...completed, ...live]
    .sort((x, y) => beamScore(y, length_penalty) - beamScore(x, length_penalty))
    .slice(0, beam_width);
}

/** Sum of the log-probabilities over the number of tokens, prompt included and end token not, to a power. */
function beamScore(beam: Beam, lengthPenalty: number): number {
  const length = beam.tokenIds.length - (beam.finishReason === 'stop' ? 1 : 0);
  return beam.cumulativeLogprob / length ** lengthPenalty;
}

async function candidatesOf(
  engine: InferenceEngine,
  beam: Beam,
  params: BeamSearchParams,
  { signal, ticket, adapter, extraKeys, images, priority }: BeamSearchRun,
): Promise<Candidate[]> {
  const prompt = { tokenIds: beam.tokenIds };
  const options = { adapter, extraKeys, images, priority };
  const prepared = await engine.prepare(prompt, stepParams(engine, params), options);
  const { suppressedTokenIds } = engine.limits;
  const numCandidates = 2 * params.beam_width;
  const candidates: Candidate[] = [];
  for await (const { logprobs } of engine.generate(prepared, signal, ticket)) {
    for (const { top: all } of logprobs ?? []) {
      const top = all.filter(({ tokenId }) => !suppressedTokenIds.includes(tokenId)).slice(0, numCandidates);
      for (const next of top) {
        const cumulativeLogprob = beam.cumulativeLogprob + next.logprob;
        candidates.push({ beam, next: { ...next, top }, cumulativeLogprob });
      }
    }
  }
  return candidates;
}

function extend({ beam, next, cumulativeLogprob }: Candidate, finishReason: Beam['finishReason']): Beam {
  return {
    tokenIds: [...beam.tokenIds, next.tokenId],
    promptLength: beam.promptLength,
    logprobs: [...beam.logprobs, next],
    cumulativeLogprob,
    finishReason,
  };
}

/** Log-probabilities are those of the model, suppressed tokens among them: so many more are asked for, as far as they may be. */
function stepParams({ limits }: InferenceEngine, { beam_width, temperature }: BeamSearchParams) {
  const { maxLogprobs, suppressedTokenIds } = limits;
  const most = maxLogprobs === -1 ? Number.POSITIVE_INFINITY : maxLogprobs;
  return resolveSamplingParams({
    max_tokens: 1,
    logprobs: Math.min(most, 2 * beam_width + suppressedTokenIds.length),
    temperature,
    ignore_eos: true,
    detokenize: false,
  });
}
