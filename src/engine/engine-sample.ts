// One sample of a request: makes deltas of what the engine thread sends of it, and notes its times.

import type { NewRequest } from '../scheduler/request.ts';
import type { TokenOutput } from '../scheduler/scheduler.ts';
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

export class EngineSample implements RequestListener {
  readonly #client: EngineClient;
  readonly #parts: SampleParts;

  constructor(client: EngineClient, parts: SampleParts) {
    this.#client = client;
    this.#parts = parts;
  }

  get request(): NewRequest {
    return this.#parts.request;
  }

  onSent(): void {
    this.#parts.times.sent();
  }

  onOutput(output: TokenOutput, at: number): void {
    const { processor, times, queue, onEnd } = this.#parts;
    try {
      const delta = processor.process(output);
      times.output(at, delta.tokenIds.length, output.admission);
      if (delta.finish_reason !== null) {
        // After a stop string the engine would go on.
        this.#client.abort([this.request]);
        times.end(delta.finish_reason);
        onEnd();
      }
      queue.push(delta);
    } catch (error) {
      this.#client.abort([this.request]);
      this.#fail(error);
    }
  }

  onDeath(error: unknown): void {
    this.#fail(error);
  }

  /** Notes that the sample was given up; the caller aborts it at the engine thread. */
  withdrawn(): void {
    this.#parts.times.end('abort');
  }

  #fail(error: unknown): void {
    this.#parts.times.end('error');
    this.#parts.queue.fail(error instanceof Error ? error : new Error(String(error)));
  }
}
