// Runs the prompts of one request through the engine: to the end for an answer in one piece, or delta by delta into an
// event stream.

import { collectSamples } from '../engine/completed-sample.ts';
import type { InferenceEngine, OutputDelta } from '../engine/inference-engine.ts';
import type { SseStream } from '../http/sse.ts';
import { bestSamples } from './best-samples.ts';
import type { GenerationRun, ParsedRequest } from './parsed-request.ts';
import { echoOnly, searchBeams, sharePromptLogprobs, withoutAnswer } from './special-deltas.ts';
import { startEach } from './start-each.ts';
import { everyFewTokens } from './stream-interval.ts';
import { StreamJournal } from './stream-journal.ts';

/** The whole answer. */
export async function respondWhole(
  engine: InferenceEngine,
  request: ParsedRequest,
  run: GenerationRun,
): Promise<object> {
  const perPrompt = await startEach(request.prompts.length, (prompt) =>
    collectSamples(deltasOf(engine, request, prompt, run)),
  );
  return request.writer.body(perPrompt.flat());
}

/** Writes a complete stream; rejects, with the stream still open, where it must end with an error. */
export async function respondStream(
  engine: InferenceEngine,
  request: ParsedRequest,
  run: GenerationRun,
  sse: SseStream,
): Promise<void> {
  const { prompts, writer, keepsJournal, streamInterval } = request;
  const journal = keepsJournal ? new StreamJournal() : null;
  const opening = writer.open();
  sse.write(journal?.annotate(0, [], opening) ?? opening);
  await startEach(prompts.length, async (prompt) => {
    const firstChoice = prompt * prompts[prompt]!.params.n;
    const deltas = deltasOf(engine, request, prompt, run);
    for await (const delta of streamInterval === 1 ? deltas : everyFewTokens(deltas, streamInterval)) {
      const choice = firstChoice + delta.index;
      const frames = await writer.delta(choice, delta);
      if (!sse.write(journal?.annotate(choice, delta.tokenIds, frames) ?? frames)) await sse.drained();
    }
  });
  sse.end(writer.close());
}

/** The deltas of prompt number `prompt`, in the order in which they are made. */
function deltasOf(
  engine: InferenceEngine,
  { prompts, beamSearch, bestOf, isEchoOnly }: ParsedRequest,
  prompt: number,
  run: GenerationRun,
): AsyncIterable<OutputDelta> | Iterable<OutputDelta> {
  const request = prompts[prompt]!;
  const { n, prompt_logprobs } = request.params;
  if (beamSearch !== null) return searchBeams(engine, request, beamSearch, run);
  if (isEchoOnly && prompt_logprobs === null) return echoOnly(n);
  if (bestOf !== null) return bestSamples(engine, request, bestOf, run);
  const deltas = engine.generate(request, run.signal, run.ticket);
  const complete = prompt_logprobs === null || n === 1 ? deltas : sharePromptLogprobs(deltas, n);
  return isEchoOnly ? withoutAnswer(complete) : complete;
}
