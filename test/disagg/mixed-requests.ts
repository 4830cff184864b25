// Requests of every kind, and what must be equal in their answers wherever they are computed.

import { z } from 'zod';
import { uniform } from '../../src/sampling/random-stream.ts';

export interface MixedRequest {
  readonly path: '/v1/completions' | '/v1/chat/completions' | '/v1/responses' | '/v1/messages';
  readonly body: Readonly<Record<string, unknown>>;
}

const WORDS =
  'once there was a little dog who went to the big forest and found a red ball under an old tree'.split(' ');
const SYSTEM =
  'You are a friendly assistant who tells short stories about animals that live in a quiet valley.';

/** The same seed gives the same requests; each brings a seed of its own. */
export function mixedRequests(count: number, seed: number): MixedRequest[] {
  return Array.from({ length: count }, (_, index) => {
    const draw = (what: number): number => uniform(seed, index, what);
    const pick = (what: number, below: number): number => Math.floor(draw(what) * below);
    const text = Array.from(
      { length: 1 + pick(0, 4) ** 4 },
      (_, word) => WORDS[pick(100 + word, WORDS.length)],
    ).join(' ');
    const isChat = draw(1) < 0.5;
    const isStream = draw(2) < 0.5;
    const wantsLogprobs = draw(3) < 0.3;
    const logprobs = isChat ? { logprobs: true, top_logprobs: 3 } : { logprobs: 3 };
    const request: MixedRequest = {
      path: isChat ? '/v1/chat/completions' : '/v1/completions',
      body: {
        ...(isChat ? { messages: conversation(text, draw(4) < 0.5) } : { prompt: text }),
        max_tokens: 1 + pick(5, 24),
        temperature: [0, 0.7, 1.3][pick(6, 3)],
        seed: pick(7, 1e6),
        ...(wantsLogprobs && logprobs),
        ...(draw(8) < 0.2 && { n: 2 }),
        ...(draw(9) < 0.2 && { presence_penalty: 0.5, frequency_penalty: 0.3, repetition_penalty: 1.1 }),
        ...(draw(10) < 0.2 && { stop: ['.', 'dog'] }),
        ...(draw(11) < 0.2 && { ignore_eos: true, min_tokens: 1 }),
        ...(!isChat && draw(12) < 0.1 && { echo: true }),
        ...(isStream && { stream: true, stream_options: { include_usage: true } }),
      },
    };
    const protocol = pick(13, 4);
    if (!isChat || protocol > 1) return request;
    return protocol === 0 ? asResponse(request.body) : asMessage(request.body);
  });
}

type Body = MixedRequest['body'];

function asResponse({ messages, max_tokens, n, logprobs, stream_options, ...shared }: Body): MixedRequest {
  const included = logprobs === true && { include: ['message.output_text.logprobs'] };
  return {
    path: '/v1/responses',
    body: { ...shared, input: messages, max_output_tokens: max_tokens, ...included },
  };
}

function asMessage({ stop, n, logprobs, top_logprobs, stream_options, ...shared }: Body): MixedRequest {
  return { path: '/v1/messages', body: { ...shared, ...(stop !== undefined && { stop_sequences: stop }) } };
}

/** Conversations share beginnings, so that there are prefixes to be found. */
function conversation(text: string, hasSystem: boolean): object[] {
  const system = hasSystem ? [{ role: 'system', content: SYSTEM }] : [];
  return [...system, { role: 'user', content: text }];
}

/** Sends a request and gives what may not differ: status, and of the answer all but its ids and time. */
export async function answerOf(url: string, { path, body }: MixedRequest): Promise<unknown> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = nameIds(await response.text());
  return { status: response.status, parts: body.stream === true ? eventsByChoice(text) : [essence(text)] };
}

/** Ids are an answer's own; what is called by the same id must be so in every other. */
function nameIds(text: string): string {
  const names = new Map<string, string>();
  return text.replaceAll(/"(id|item_id|call_id)": ?"([^"]+)"/g, (_, field: string, id: string) => {
    if (!names.has(id)) names.set(id, `${names.size}`);
    return `"${field}":"${names.get(id)}"`;
  });
}

const Chunk = z.looseObject({ choices: z.array(z.looseObject({ index: z.number() })) });

/** At most two choices; those of one stream come in any order among each other, each in its own. */
function eventsByChoice(text: string): string[][] {
  const perChoice: string[][] = [[], []];
  const others: string[] = [];
  for (const event of text.split('\n\n')) {
    const data = /^data: (.*)$/m.exec(event)?.[1];
    if (data === undefined) continue;
    const chunk = data === '[DONE]' ? null : Chunk.safeParse(JSON.parse(data));
    const index = chunk?.success ? chunk.data.choices[0]?.index : undefined;
    if (index === undefined) others.push(essence(data));
    else perChoice[index]?.push(essence(data));
  }
  return [...perChoice, others];
}

/** They are times, or tell what was cached and kept, which depends on who came before and where it is. */
const OWN_FIELDS: ReadonlySet<string> = new Set([
  'created',
  'created_at',
  'cached_tokens',
  'cache_read_input_tokens',
  'input_tokens',
  'store',
  'system_fingerprint',
]);

function essence(json: string): string {
  if (json === '[DONE]') return json;
  return JSON.stringify(JSON.parse(json), (key, value: unknown) => (OWN_FIELDS.has(key) ? undefined : value));
}

/** Answers of all requests, at most `atOnce` in flight. */
export async function answersOf(
  url: string,
  requests: readonly MixedRequest[],
  atOnce: number,
): Promise<unknown[]> {
  const answers = new Array<unknown>(requests.length);
  const queue = [...requests.entries()];
  const worker = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      answers[next[0]] = await answerOf(url, next[1]);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return answers;
}
