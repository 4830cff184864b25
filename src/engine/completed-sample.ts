// One sample of a request as a whole: its deltas, joined.

import type { OutputDelta } from './output-processor.ts';
import type { PositionLogprobs } from './token-logprobs.ts';

export interface CompletedSample {
  /** Which of the n samples. */
  readonly index: number;
  readonly text: string;
  readonly tokenIds: readonly number[];
  /** One entry a token; null where nobody asked. */
  readonly logprobs: readonly PositionLogprobs[] | null;
  /** As its first delta had them. */
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  /** Prompt tokens that came from the prefix cache. */
  readonly numCachedTokens: number;
  readonly finish_reason: NonNullable<OutputDelta['finish_reason']>;
  readonly stop_reason: number | string | null;
}

/** Joins the deltas of each sample, in order of their index. */
export async function collectSamples(
  deltas: AsyncIterable<OutputDelta> | Iterable<OutputDelta>,
): Promise<CompletedSample[]> {
  const bySample: OutputDelta[][] = [];
  for await (const delta of deltas) {
    bySample[delta.index] ??= [];
    bySample[delta.index]!.push(delta);
  }
  return bySample.map(join);
}

function join(deltas: readonly OutputDelta[], index: number): CompletedSample {
  const last = deltas.at(-1);
  if (last === undefined || last.finish_reason === null) throw new Error(`sample ${index} has no end`);
  return {
    index,
    text: deltas.map(({ text }) => text).join(''),
    tokenIds: deltas.flatMap(({ tokenIds }) => tokenIds),
    logprobs: last.logprobs === null ? null : deltas.flatMap(({ logprobs }) => logprobs ?? []),
    promptLogprobs: deltas[0]!.promptLogprobs,
    numCachedTokens: last.numCachedTokens,
    finish_reason: last.finish_reason,
    stop_reason: last.stop_reason,
  };
}
