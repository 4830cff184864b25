// One sample of a request as a whole: its deltas, joined.

import type { FinishReason } from '../sampling/finish-reason.ts';
import { yieldTurn } from '../util/yield-turn.ts';
import type { OutputDelta } from './output-processor.ts';

export interface CompletedSample extends OutputDelta {
  /** What it was joined of: they tell which tokens came with which part. */
  readonly deltas: readonly OutputDelta[];
  readonly finish_reason: FinishReason;
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
  const samples: CompletedSample[] = [];
  for (const [index, own] of bySample.entries()) {
    samples.push(join(own, index));
    await yieldTurn();
  }
  return samples;
}

function join(deltas: readonly OutputDelta[], index: number): CompletedSample {
  const last = deltas.at(-1);
  if (last === undefined || last.finish_reason === null) throw new Error(`sample ${index} has no end`);
  return {
    deltas,
    index,
    text: deltas.map(({ text }) => text).join(''),
    parts: last.parts === null ? null : deltas.flatMap(({ parts }) => parts ?? []),
    numReasoningTokens: deltas.reduce((sum, { numReasoningTokens }) => sum + numReasoningTokens, 0),
    tokenIds: deltas.flatMap(({ tokenIds }) => tokenIds),
    logprobs: last.logprobs === null ? null : deltas.flatMap(({ logprobs }) => logprobs ?? []),
    promptLogprobs: deltas[0]!.promptLogprobs,
    numCachedTokens: last.numCachedTokens,
    finish_reason: last.finish_reason,
    stop_reason: last.stop_reason,
    isCallCut: last.isCallCut,
  };
}
