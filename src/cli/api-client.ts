// The small client behind svc chat and svc complete: asks a server that speaks the protocol and streams its text.

import { EventSourceParserStream } from 'eventsource-parser/stream';
import * as z from 'zod';
import { SvcError } from '../errors.ts';
import { parseJson } from '../util/parse-json.ts';
import { shortened } from '../util/preview.ts';

/** A server answers /models within this time or it is not there. */
const ANSWER_DEADLINE_MS = 20_000;

export interface ApiClient {
  readonly url: string;
  readonly apiKey: string;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** What the server, or the way to it, answers instead of text. */
export class ApiError extends SvcError {}

/** Nobody listens at the address. */
export class UnreachableError extends ApiError {}

/** The server is there and still loads its model. */
export class LoadingError extends ApiError {}

/** The request does not fit into the model's context. */
export class ContextFullError extends ApiError {}

export interface ChatTurn {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: MessageContent;
}

/** A text, or parts of which some are images. */
export type MessageContent = string | readonly (TextPart | ImagePart)[];

export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}

export interface ImagePart {
  readonly type: 'image_url';
  readonly image_url: { readonly url: string };
}

interface ModelCard {
  readonly id: string;
  /** The context in tokens; null where the server does not tell. */
  readonly contextLength: number | null;
}

/** A piece of an answer; the fields other than the text are set once, near the end. */
export interface AnswerPart {
  readonly text: string;
  /** The answer ends here because no more tokens were allowed, or fitted. */
  readonly isCutOff: boolean;
  /** Of prompt and answer together. */
  readonly numTokens: number | null;
}

const modelList = z.object({
  data: z.array(z.object({ id: z.string(), max_model_len: z.number().nullish() })).min(1),
});

const errorBody = z.object({ error: z.object({ message: z.string() }) });

const chunk = z.object({
  choices: z.array(
    z.object({
      text: z.string().nullish(),
      delta: z.object({ content: z.string().nullish() }).nullish(),
      finish_reason: z.string().nullish(),
    }),
  ),
  usage: z.object({ total_tokens: z.number() }).nullish(),
});

/** The models of the server, at least one. @throws ApiError when there is no server or it has no model. */
export async function listModels(client: ApiClient): Promise<ModelCard[]> {
  const url = endpoint(client, '/models');
  const response = await ask(client, '/models', { signal: AbortSignal.timeout(ANSWER_DEADLINE_MS) });
  const { data } = parse(modelList, await wholeText(response, url), url);
  return data.map(({ id, max_model_len }) => ({ id, contextLength: max_model_len ?? null }));
}

/** An answer, piece by piece. @throws ApiError with the server's own words. */
export async function* streamAnswer(
  client: ApiClient,
  path: '/chat/completions' | '/completions',
  body: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): AsyncGenerator<AnswerPart, void, undefined> {
  const url = endpoint(client, path);
  const response = await ask(client, path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  const events = response.body
    ?.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  for await (const { data } of pieces(events, url)) {
    if (data === '[DONE]') return;
    const { choices, usage } = parse(chunk, data, url);
    yield {
      text: choices[0]?.delta?.content ?? choices[0]?.text ?? '',
      isCutOff: choices[0]?.finish_reason === 'length',
      numTokens: usage?.total_tokens ?? null,
    };
  }
  throw brokenOff(url);
}

function endpoint({ url }: ApiClient, path: string): string {
  return url.replace(/\/+$/, '') + path;
}

async function ask(client: ApiClient, path: string, init: RequestInit): Promise<Response> {
  const url = endpoint(client, path);
  const headers = { authorization: `Bearer ${client.apiKey}`, ...init.headers, ...client.headers };
  const response = await fetch(url, { ...init, headers }).catch((cause: unknown) => {
    if (isAbort(cause)) throw cause;
    throw notReached(new URL(url), cause);
  });
  if (!response.ok) throw refusal(response.status, await wholeText(response, url), new URL(url));
  return response;
}

const systemError = z.object({ cause: z.object({ code: z.string(), message: z.string() }) });

/** Codes of OpenSSL for certificates that no authority known here has issued. */
const UNTRUSTED: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);

/** Of others that are refused: expired, or for another name. */
const REFUSED_CERTIFICATE = /^(CERT_|ERR_TLS_CERT_)/;

function notReached(url: URL, cause: unknown): ApiError {
  const { code, message } = systemError.safeParse(cause).data?.cause ?? { code: '', message: '' };
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return new ApiError(`there is no host named ${url.hostname}: check --url`, { cause });
  if (UNTRUSTED.has(code)) {
    return new ApiError(
      `${url.origin} answers, but no authority that is known here has issued its certificate: if it is yours, set ` +
        'NODE_EXTRA_CA_CERTS to the file (PEM) of the certificate, or of the authority that issued it',
      { cause },
    );
  }
  if (REFUSED_CERTIFICATE.test(code)) {
    return new ApiError(`${url.origin} answers, but its certificate is refused: ${message}`, { cause });
  }
  if (code === 'ECONNRESET' || code === 'UND_ERR_SOCKET') return brokenOff(url.href, cause);
  const fix = 'start a server with svc serve, or give the address of one with --url';
  return new UnreachableError(`nothing answers at ${url.href}: ${fix}`, { cause });
}

function brokenOff(url: string, cause?: unknown): ApiError {
  return new ApiError(`the connection to ${url} broke off before the answer was complete`, { cause });
}

function refusal(status: number, text: string, url: URL): ApiError {
  const message = `HTTP ${status}: ${messageOf(text)}`;
  const isModels = url.pathname.endsWith('/models');
  if (status === 401) return new ApiError(`${message}: give the key with --api-key or OPENAI_API_KEY`);
  if (status === 404 && isModels) {
    const root = `${url.origin}/v1`;
    return new ApiError(`HTTP 404: no model server has ${url.href}: --url must be like ${root}`);
  }
  if (status === 503 && isModels) return new LoadingError(message);
  if (status === 400 && /context/i.test(message)) return new ContextFullError(message);
  return new ApiError(message);
}

function messageOf(text: string): string {
  const { data } = errorBody.safeParse(parseJson(text));
  // Not one of our servers: its words, on one line.
  return data?.error.message ?? (shortened(text.replace(/\s+/g, ' ').trim(), 200) || 'no reason was given');
}

/** @throws ApiError where `text` does not fit the protocol, or is the server's error. */
function parse<T>(schema: z.ZodType<T>, text: string, url: string): T {
  try {
    const json: unknown = JSON.parse(text);
    const failed = errorBody.safeParse(json);
    if (failed.success) throw new ApiError(failed.data.error.message);
    return schema.parse(json);
  } catch (cause) {
    if (cause instanceof ApiError) throw cause;
    throw new ApiError(`${url} does not answer as a model server: check --url`, { cause });
  }
}

/** @throws ApiError where the connection breaks; an abort is thrown as it is. */
async function* pieces<T>(
  body: AsyncIterable<T> | undefined,
  url: string,
): AsyncGenerator<T, void, undefined> {
  if (body === undefined) return;
  try {
    yield* body;
  } catch (cause) {
    if (isAbort(cause)) throw cause;
    throw brokenOff(url, cause);
  }
}

async function wholeText(response: Response, url: string): Promise<string> {
  let text = '';
  for await (const piece of pieces(response.body?.pipeThrough(new TextDecoderStream()), url)) text += piece;
  return text;
}

/** Whether the caller has aborted; a missed deadline has another name. */
function isAbort(cause: unknown): boolean {
  return cause instanceof Error && cause.name === 'AbortError';
}
