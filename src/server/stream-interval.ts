// stream_interval: several tokens in each event of a stream, for clients and networks that many small events would cost more.

import type { OutputDelta } from '../engine/inference-engine.ts';
import { joinedParts } from '../parsers/answer-parts.ts';

/** The deltas of each sample, joined to `interval` tokens; the first of a sample comes at once, and so does its end. */
export async function* everyFewTokens(
  deltas: AsyncIterable<OutputDelta> | Iterable<OutputDelta>,
  interval: number,
): AsyncGenerator<OutputDelta, void, undefined> {
  const held = new Map<number, OutputDelta>();
  const begun = new Set<number>();
  for await (const delta of deltas) {
    const { index } = delta;
    const earlier = held.get(index);
    const joined = earlier === undefined ? delta : join(earlier, delta);
    const isDue = !begun.has(index) || delta.finish_reason !== null || joined.tokenIds.length >= interval;
    if (!isDue) {
      held.set(index, joined);
      continue;
    }
    held.delete(index);
    begun.add(index);
    yield joined;
  }
}

function join(first: OutputDelta, second: OutputDelta): OutputDelta {
  return {
    ...second,
    text: first.text + second.text,
    parts: second.parts && joinedParts([...(first.parts ?? []), ...second.parts]),
    tokenIds: [...first.tokenIds, ...second.tokenIds],
    numReasoningTokens: first.numReasoningTokens + second.numReasoningTokens,
    logprobs: second.logprobs && [...(first.logprobs ?? []), ...second.logprobs],
  };
}
