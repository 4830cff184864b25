// The small client behind svc chat and svc complete: asks a server that speaks the protocol and streams its text.

import { z } from 'zod';
import { SvcError } from '../errors.ts';
import { wholeCharacters } from '../util/whole-characters.ts';

/** A server answers /models within this time or it is not there. */
const ANSWER_DEADLINE_MS = 20_000;

export interface ApiClient {
  /** With /v1. */
  readonly url: string;
  readonly apiKey: string;
}

/** What the server, or the way to it, answers instead of text. */
export class ApiError extends SvcError {}

export interface ChatTurn {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

const modelList = z.object({ data: z.array(z.object({ id: z.string() })).min(1) });

const errorBody = z.object({ error: z.object({ message: z.string() }) });

const chunk = z.object({
  choices: z.array(
    z.object({ text: z.string().nullish(), delta: z.object({ content: z.string().nullish() }).nullish() }),
  ),
});

/** @throws ApiError when there is no server or it has no model. */
export async function firstModel(client: ApiClient): Promise<string> {
  const response = await ask(client, '/models', { signal: AbortSignal.timeout(ANSWER_DEADLINE_MS) });
  return modelList.parse(await response.json()).data[0]!.id;
}

/** The text of an answer, piece by piece. @throws ApiError with the server's own words. */
export async function* streamText(
  client: ApiClient,
  path: '/chat/completions' | '/completions',
  body: Readonly<Record<string, unknown>>,
): AsyncGenerator<string, void, undefined> {
  const response = await ask(client, path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true }),
  });
  for await (const event of serverEvents(response)) {
    if (event === '[DONE]') return;
    const json: unknown = JSON.parse(event);
    const failed = errorBody.safeParse(json);
    if (failed.success) throw new ApiError(failed.data.error.message);
    const choice = chunk.parse(json).choices[0];
    const text = choice?.delta?.content ?? choice?.text;
    if (text) yield text;
  }
}

async function ask(client: ApiClient, path: string, init: RequestInit): Promise<Response> {
  const headers = { ...init.headers, authorization: `Bearer ${client.apiKey}` };
  const url = client.url.replace(/\/+$/, '') + path;
  const response = await fetch(url, { ...init, headers }).catch((cause: unknown) => {
    throw new ApiError(`${url} cannot be reached: start a server with svc serve, or give its --url`, {
      cause,
    });
  });
  if (response.ok) return response;
  const text = await response.text();
  throw new ApiError(`HTTP ${response.status}: ${messageOf(text)}`);
}

function messageOf(text: string): string {
  try {
    return errorBody.parse(JSON.parse(text)).error.message;
  } catch {
    // Not one of our servers: its words as they are.
    return wholeCharacters(text, 500);
  }
}

/** The data of each server-sent event; an event ends with an empty line. */
async function* serverEvents(response: Response): AsyncGenerator<string, void, undefined> {
  if (response.body === null) return;
  let buffer = '';
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (buffer + text).split(/\r?\n\r?\n/);
    buffer = events.pop() ?? '';
    for (const event of events) {
      const data = event.split(/\r?\n/).filter((line) => line.startsWith('data:'));
      if (data.length > 0) yield data.map((line) => line.slice(5).trimStart()).join('\n');
    }
  }
}
