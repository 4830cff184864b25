// Runs the prompts of one request through the engine: to the end for an answer in one piece, or delta by delta into an
// event stream.

import { collectSamples } from '../engine/completed-sample.ts';
import type { InferenceEngine } from '../engine/inference-engine.ts';
import type { SseStream } from '../http/sse.ts';
import { startEach } from '../util/start-each.ts';
import { deltasOf, type GenerationRun } from './deltas.ts';
import type { ParsedRequest } from './parsed-request.ts';
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
  const { prompts, writer, keepsJournal } = request;
  const journal = keepsJournal ? new StreamJournal() : null;
  sse.write(writer.open());
  await startEach(prompts.length, async (prompt) => {
    const firstChoice = prompt * prompts[prompt]!.params.n;
    for await (const delta of deltasOf(engine, request, prompt, run)) {
      const choice = firstChoice + delta.index;
      const frames = writer.delta(choice, delta);
      if (!sse.write(journal?.annotate(choice, delta.tokenIds, frames) ?? frames)) await sse.drained();
    }
  });
  sse.end(writer.close());
}
