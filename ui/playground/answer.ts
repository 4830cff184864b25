// Reads an answer, whole or streamed, as a sequence of additions to one message.

import * as z from 'zod/mini';
import { eventsOf, RefusedError, request } from '../api.ts';
import type { Message, SampledToken } from './message.ts';
import type { GenerationRequest } from './request-body.ts';

const candidate = z.object({ token: z.string(), logprob: z.number() });
const chatToken = z.extend(candidate, { top_logprobs: z.array(candidate) });
const part = z.object({
  content: z.nullish(z.string()),
  reasoning: z.nullish(z.string()),
  tool_calls: z.nullish(
    z.array(
      z.object({
        index: z.optional(z.number()),
        id: z.nullish(z.string()),
        function: z.optional(z.object({ name: z.nullish(z.string()), arguments: z.nullish(z.string()) })),
        custom: z.optional(z.object({ name: z.nullish(z.string()), input: z.nullish(z.string()) })),
      }),
    ),
  ),
});
const choice = z.object({
  message: z.optional(part),
  delta: z.optional(part),
  text: z.optional(z.string()),
  finish_reason: z.nullish(z.string()),
  logprobs: z.nullish(
    z.object({
      content: z.nullish(z.array(chatToken)),
      tokens: z.optional(z.array(z.string())),
      token_logprobs: z.optional(z.array(z.nullable(z.number()))),
      top_logprobs: z.nullish(z.array(z.nullable(z.record(z.string(), z.number())))),
    }),
  ),
});
const answerSchema = z.object({
  choices: z.array(choice),
  usage: z.nullish(z.object({ prompt_tokens: z.number(), completion_tokens: z.number() })),
});
const failureSchema = z.object({ error: z.object({ message: z.string() }) });

type Answer = z.output<typeof answerSchema>;
type Choice = z.output<typeof choice>;

/**
 * Gives `message` with each addition of the answer to it.
 * @throws RefusedError where the server refused the request, or failed in the middle of its stream.
 */
export async function* answered(
  { path, body }: GenerationRequest,
  message: Message,
  signal: AbortSignal,
): AsyncGenerator<Message> {
  const begun = performance.now();
  const response = await request(path, body, signal);
  let grown = message;
  for await (const answer of answersOf(response, body.stream === true)) {
    grown = extended(grown, answer, (performance.now() - begun) / 1000);
    yield grown;
  }
}

async function* answersOf(response: Response, isStream: boolean): AsyncGenerator<Answer> {
  if (!isStream) {
    yield answerSchema.parse(await response.json());
    return;
  }
  for await (const data of eventsOf(response)) {
    if (data === '[DONE]') return;
    const event: unknown = JSON.parse(data);
    const failure = failureSchema.safeParse(event);
    if (failure.success) throw new RefusedError(500, failure.data.error.message);
    yield answerSchema.parse(event);
  }
}

function extended(message: Message, { choices, usage }: Answer, seconds: number): Message {
  const made = choices[0] === undefined ? message : withChoice(message, choices[0]);
  if (usage == null) return made;
  const { prompt_tokens, completion_tokens } = usage;
  const pace = `${prompt_tokens} + ${completion_tokens} tokens in ${seconds.toFixed(1)} s`;
  return { ...made, note: [made.note, pace].filter(Boolean).join(' · ') };
}

function withChoice(message: Message, choice: Choice): Message {
  const added = choice.message ?? choice.delta ?? {};
  return {
    ...message,
    content: message.content + (choice.text ?? added.content ?? ''),
    reasoning: message.reasoning + (added.reasoning ?? ''),
    toolCalls: withCalls(message.toolCalls, added.tool_calls ?? []),
    tokens: [...message.tokens, ...tokensOf(choice)],
    note: choice.finish_reason ?? message.note,
  };
}

function withCalls(
  calls: Message['toolCalls'],
  added: NonNullable<z.output<typeof part>['tool_calls']>,
): Message['toolCalls'] {
  const made = [...calls];
  for (const [place, { index = place, id, function: called, custom }] of added.entries()) {
    const before = made[index] ?? { id: '', type: 'function', name: '', input: '' };
    made[index] = {
      id: id ?? before.id,
      type: custom === undefined ? before.type : 'custom',
      name: (custom ?? called)?.name ?? before.name,
      input: before.input + (custom?.input ?? called?.arguments ?? ''),
    };
  }
  return made;
}

function tokensOf({ logprobs }: Choice): readonly SampledToken[] {
  if (logprobs == null) return [];
  if (logprobs.content != null) {
    return logprobs.content.map(({ top_logprobs, ...token }) => ({ ...token, alternatives: top_logprobs }));
  }
  return (logprobs.tokens ?? []).map((token, place) => ({
    token,
    logprob: logprobs.token_logprobs?.[place] ?? 0,
    alternatives: Object.entries(logprobs.top_logprobs?.[place] ?? {}).map(([text, logprob]) => ({
      token: text,
      logprob,
    })),
  }));
}
