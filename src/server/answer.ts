// Runs the prompts of one HTTP request through the engine: to the end for a whole answer, or delta by delta into an
// event stream. Both generation routes use it; what the bytes look like is their format's affair.

import type { InferenceEngine } from '../engine/inference-engine.ts';
import type { SseStream } from '../http/sse.ts';
import { startEach } from '../util/start-each.ts';
import type { AnswerFormat } from './answer-format.ts';
import type { Generation, GenerationRun } from './generation.ts';
import { type Usage, usageOf } from './protocol/usage.ts';
import { collectSamples, deltasOf, searchSamples } from './samples.ts';
import { StreamJournal } from './stream-journal.ts';

/** What streaming one prompt has cost. */
interface PromptCost {
  readonly completionTokens: number;
  readonly cachedTokens: number;
}

/** The whole answer; choices are in the order of the prompts, the samples of a prompt together. */
export async function generateBody(
  engine: InferenceEngine,
  generation: Generation,
  format: AnswerFormat,
  run: GenerationRun,
): Promise<object> {
  const perPrompt = await startEach(generation.prompts.length, (prompt) => {
    if (generation.beamSearch !== null) return searchSamples(engine, generation, prompt, run);
    const { params } = generation.prompts[prompt]!;
    const echo = generation.echoes[prompt]?.text ?? '';
    return collectSamples(deltasOf(engine, generation, prompt, run), params.n, echo);
  });
  const costs = perPrompt.map((samples) => ({
    completionTokens: samples.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
    cachedTokens: samples[0]?.numCachedTokens ?? 0,
  }));
  return format.body(perPrompt.flat(), totalUsage(generation, costs));
}

/** Writes every event but the last; rejects where an error event is to end the stream. */
export async function generateEvents(
  engine: InferenceEngine,
  generation: Generation,
  format: AnswerFormat,
  sse: SseStream,
  run: GenerationRun,
): Promise<void> {
  const costs = await startEach(generation.prompts.length, (prompt) =>
    streamPrompt(engine, generation, prompt, format, sse, run),
  );
  if (generation.includeUsage) sse.write(format.usageEvent(totalUsage(generation, costs)));
}

async function streamPrompt(
  engine: InferenceEngine,
  generation: Generation,
  prompt: number,
  format: AnswerFormat,
  sse: SseStream,
  run: GenerationRun,
): Promise<PromptCost> {
  const { params, promptTokenIds } = generation.prompts[prompt]!;
  const { returnTokenIds, continuousUsage, showsCachedTokens } = generation;
  const numTokens = new Array<number>(params.n).fill(0);
  const hasBegun = new Array<boolean>(params.n).fill(false);
  const journal = generation.keepsJournal ? new StreamJournal(params.n, prompt * params.n) : null;
  let cachedTokens = 0;
  for await (const delta of deltasOf(engine, generation, prompt, run)) {
    const { index, numCachedTokens, tokenIds, logprobs } = delta;
    numTokens[index]! += tokenIds.length;
    if (index === 0) cachedTokens = numCachedTokens;
    journal?.add(index, tokenIds);
    // Half a character, or the beginning of what may become a stop string: nothing to show yet.
    const isShown = delta.text !== '' || delta.finish_reason !== null || returnTokenIds || logprobs !== null;
    if (!isShown) continue;
    const cached = showsCachedTokens ? numCachedTokens : null;
    const usage = continuousUsage ? usageOf(promptTokenIds.length, numTokens[index]!, cached) : null;
    const events = format.events(prompt * params.n + index, delta, !hasBegun[index], usage);
    hasBegun[index] = true;
    if (!sse.write(journal?.annotate(index, events) ?? events)) await sse.drained();
  }
  return { completionTokens: numTokens.reduce((sum, tokens) => sum + tokens, 0), cachedTokens };
}

function totalUsage(
  { prompts, showsCachedTokens, beamSearch }: Generation,
  costs: readonly PromptCost[],
): Usage {
  const promptTokens = prompts.reduce((sum, { promptTokenIds }) => sum + promptTokenIds.length, 0);
  const completionTokens = costs.reduce((sum, cost) => sum + cost.completionTokens, 0);
  const cachedTokens = costs.reduce((sum, cost) => sum + cost.cachedTokens, 0);
  return usageOf(
    promptTokens,
    completionTokens,
    showsCachedTokens && beamSearch === null ? cachedTokens : null,
  );
}
