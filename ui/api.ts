// Requests of the page to the server that it came from, with the user's key, which is kept as long as the tab is open.

import { EventSourceParserStream } from 'eventsource-parser/stream';
import * as z from 'zod/mini';

const KEY = 'api-key';
const errorSchema = z.object({ error: z.object({ message: z.string() }) });
const modelsSchema = z.object({ data: z.array(z.object({ id: z.string() })) });

/** The server refused a request; the message is its own. */
export class RefusedError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Tells the page that the server wants a key, or another one than it got. */
export const unauthorized = new EventTarget();

export function hasKey(): boolean {
  return sessionStorage.getItem(KEY) !== null;
}

export function setKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

/**
 * `path` is relative to the page, so that a gateway may put it anywhere.
 * @throws RefusedError, or TypeError where the server cannot be reached.
 */
export async function request(path: string, body?: object, signal?: AbortSignal): Promise<Response> {
  const key = sessionStorage.getItem(KEY);
  const response = await fetch(path, {
    headers: {
      ...(body && { 'content-type': 'application/json' }),
      ...(key !== null && { authorization: `Bearer ${key}` }),
    },
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
    ...(signal && { signal }),
  });
  if (response.ok) return response;
  // A refusal of the key before says nothing about the one that has come since.
  const isRefused = response.status === 401 && key === sessionStorage.getItem(KEY);
  if (isRefused) unauthorized.dispatchEvent(new Event('unauthorized'));
  throw new RefusedError(response.status, messageOf(await response.text(), response.statusText));
}

function messageOf(body: string, otherwise: string): string {
  try {
    return errorSchema.parse(JSON.parse(body)).error.message;
  } catch {
    return otherwise;
  }
}

/** The data of each event of an event stream. */
export async function* eventsOf(response: Response): AsyncGenerator<string> {
  if (response.body === null) return;
  const events = response.body
    .pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array<ArrayBuffer>, string>)
    .pipeThrough(new EventSourceParserStream());
  for await (const { data } of events) yield data;
}

/** Names under which the server has its model. */
export async function servedModels(): Promise<readonly string[]> {
  const response = await request('v1/models');
  return modelsSchema.parse(await response.json()).data.map(({ id }) => id);
}
