// One sample of a request: makes deltas of what the engine thread sends of it, and notes its times.

import type { NewRequest } from '../scheduler/request.ts';
import type { EngineClient, RequestListener } from './engine-client.ts';
import type { OutputProcessor } from './output-processor.ts';
import type { OutputQueue } from './output-queue.ts';
import type { SampleTimes } from './sample-times.ts';

interface SampleParts {
  readonly request: NewRequest;
  readonly processor: OutputProcessor;
  readonly times: SampleTimes;
  readonly queue: OutputQueue;
  /** Called when the sample has ended by itself. */
  readonly onEnd: () => void;
}

export function engineSample(client: EngineClient, parts: SampleParts): RequestListener {
  const { request, processor, times, queue, onEnd } = parts;
  const fail = (error: unknown): void => {
    times.end('error');
    queue.fail(error instanceof Error ? error : new Error(String(error)));
  };
  return {
    request,
    onSent: () => times.sent(),
    onOutput(output, at) {
      try {
        const delta = processor.process(output);
        times.output(at, delta.tokenIds.length, output.admission);
        if (delta.finish_reason !== null) {
          // After a stop string the engine would go on.
          client.abort([request]);
          times.end(delta.finish_reason);
          onEnd();
        }
        queue.push(delta);
      } catch (error) {
        client.abort([request]);
        fail(error);
      }
    },
    onDeath: fail,
    onWithdrawn: () => times.end('abort'),
  };
}
