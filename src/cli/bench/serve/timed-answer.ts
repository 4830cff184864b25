// One streamed request over HTTP, and when its parts came.

import { EventSourceParserStream } from 'eventsource-parser/stream';
import { Agent, request as send } from 'undici';
import * as z from 'zod';
import { parseJson } from '../../../util/parse-json.ts';
import { shortened } from '../../../util/preview.ts';
import type { WorkloadRequest } from './workload.ts';

export type Backend = 'openai' | 'openai-chat';

export interface TimedAnswer {
  /** Seconds since the beginning of the measurement. */
  readonly sentAt: number;
  readonly endedAt: number;
  /** Seconds. */
  readonly ttft: number;
  readonly interTokenLatencies: readonly number[];
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Null where all went well. */
  readonly error: string | null;
}

interface Target {
  readonly url: string;
  readonly apiKey: string;
  readonly model: string;
  readonly backend: Backend;
  readonly headers: Readonly<Record<string, string>>;
  /** Goes into every request. */
  readonly extraBody: Readonly<Record<string, unknown>>;
}

const failure = z.object({ error: z.object({ message: z.string() }) });
const chunk = z.object({
  choices: z.array(z.object({ text: z.string().nullish(), delta: z.looseObject({}).nullish() })).default([]),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }).nullish(),
});

export class LoadClient {
  readonly #target: Target;
  readonly #startedAt: number;
  readonly #agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });

  constructor(target: Target) {
    this.#target = target;
    this.#startedAt = performance.now();
  }

  /** Never rejects: what went wrong is in the answer. */
  async answer(request: WorkloadRequest): Promise<TimedAnswer> {
    const sentAt = this.#now();
    const times: number[] = [];
    let tokens = { prompt_tokens: 0, completion_tokens: 0 };
    let error: string | null = null;
    try {
      for await (const { choices, usage } of this.#events(request)) {
        if (choices.length > 0) times.push(this.#now());
        tokens = usage ?? tokens;
      }
      if (times.length === 0) error = 'the stream was empty';
    } catch (thrown) {
      error = thrown instanceof Error ? thrown.message : String(thrown);
    }
    const endedAt = this.#now();
    return {
      sentAt,
      endedAt,
      ttft: (times[0] ?? endedAt) - sentAt,
      interTokenLatencies: times.slice(1).map((time, i) => time - times[i]!),
      promptTokens: tokens.prompt_tokens,
      outputTokens: tokens.completion_tokens || times.length,
      error,
    };
  }

  close(): Promise<void> {
    return this.#agent.close();
  }

  async *#events(request: WorkloadRequest): AsyncGenerator<z.output<typeof chunk>> {
    const { url, apiKey, headers, backend } = this.#target;
    const path = backend === 'openai' ? '/completions' : '/chat/completions';
    const { statusCode, body } = await send(`${url.replace(/\/+$/, '')}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}`, ...headers },
      body: JSON.stringify(this.#body(request)),
      dispatcher: this.#agent,
    });
    if (statusCode !== 200) throw new Error(messageOf(statusCode, await body.text()));
    const stream = ReadableStream.from<Uint8Array>(body)
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream());
    for await (const { data } of stream) {
      if (data === '[DONE]') return;
      const event = parseJson(data);
      const failed = failure.safeParse(event);
      if (failed.success) throw new Error(failed.data.error.message);
      yield chunk.parse(event);
    }
    throw new Error('the stream broke off before the answer was complete');
  }

  #body({ prompt, outputLen }: WorkloadRequest): object {
    const { model, backend, extraBody } = this.#target;
    return {
      model,
      ...(backend === 'openai' ? { prompt } : { messages: [{ role: 'user', content: prompt }] }),
      stream: true,
      stream_options: { include_usage: true },
      ...(outputLen !== null && { max_tokens: outputLen }),
      ...extraBody,
    };
  }

  #now(): number {
    return (performance.now() - this.#startedAt) / 1000;
  }
}

function messageOf(status: number, body: string): string {
  const failed = failure.safeParse(parseJson(body));
  return `${status}: ${failed.success ? failed.data.error.message : shortened(body)}`;
}
