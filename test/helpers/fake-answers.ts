// What a fake instance writes: tokens that follow from prompt, seed, choice and position alone, so that every instance
// writes the same answer, and a test knows it beforehand.

import { randomInt } from 'node:crypto';
import { z } from 'zod';

export const FakeBody = z.looseObject({
  model: z.string().default('fake'),
  prompt: z.unknown().optional(),
  messages: z.unknown().optional(),
  max_tokens: z.int().default(16),
  max_completion_tokens: z.int().optional(),
  n: z.int().default(1),
  seed: z.int().optional(),
  temperature: z.number().default(1),
  stream: z.boolean().default(false),
  stream_options: z.object({ include_usage: z.boolean() }).nullish(),
  svc_resume: z.object({ created: z.int(), choices: z.array(z.array(z.int())) }).optional(),
});
export type FakeBody = z.output<typeof FakeBody>;

/** One event of a stream: its choice and tokens where it belongs to one, and its JSON. */
export interface FakeEvent {
  readonly journal: { readonly choice: number; readonly tokenIds: readonly number[] } | null;
  readonly data: string;
}

export interface AnswerTraits {
  readonly isChat: boolean;
  readonly requestId: string;
  /** Seconds since 1970. */
  readonly created: number;
  /** Another one interleaves the choices of a stream otherwise. */
  readonly turn: number;
}

const VOCABULARY = 50_000;

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

export function expectedTokens(
  { prompt, messages, seed }: Partial<FakeBody>,
  choice = 0,
  count = 16,
): number[] {
  const start = hashOf(JSON.stringify([prompt, messages, seed ?? null, choice]));
  return Array.from({ length: count }, (_, position) => (start + position * 7919) % VOCABULARY);
}

export function textOf(tokenIds: readonly number[]): string {
  return tokenIds.map((id) => ` ${id}`).join('');
}

/** The answers of a request, in one piece or as events. */
export class FakeAnswer {
  readonly #traits: AnswerTraits;
  readonly #body: FakeBody;
  readonly choices: readonly (readonly number[])[];

  constructor(body: FakeBody, traits: AnswerTraits) {
    this.#traits = { ...traits, created: body.svc_resume?.created ?? traits.created };
    // Who samples without a seed draws one: another instance would write something else.
    this.#body =
      body.temperature === 0 || body.seed !== undefined ? body : { ...body, seed: randomInt(2 ** 31) };
    const isBatch = Array.isArray(body.prompt) && typeof body.prompt[0] !== 'number';
    const numPrompts = isBatch && Array.isArray(body.prompt) ? body.prompt.length : 1;
    const count = body.max_completion_tokens ?? body.max_tokens;
    this.choices = Array.from({ length: numPrompts * body.n }, (_, choice) =>
      expectedTokens(this.#body, choice, count),
    );
  }

  /** Whether what is to be continued is what this instance would have written. */
  get canResume(): boolean {
    const sent = this.#body.svc_resume?.choices;
    if (sent === undefined) return true;
    const isBeginning = (ids: readonly number[], choice: number): boolean =>
      ids.every((id, index) => this.choices[choice]?.[index] === id);
    return sent.length === this.choices.length && sent.every(isBeginning);
  }

  whole(): string {
    const finish_reason = 'length';
    const choices = this.choices.map((ids, index) => {
      const text = textOf(ids);
      return this.#traits.isChat
        ? { index, message: { role: 'assistant', content: text }, finish_reason }
        : { index, text, finish_reason, logprobs: null };
    });
    return JSON.stringify({ ...this.#head(false), choices, usage: this.#usage() });
  }

  /** Choices take turns; each one's own events are always the same. */
  *events(): Generator<FakeEvent> {
    let open = this.choices.map((ids, choice) => this.#ofChoice(choice, ids));
    for (let step = this.#traits.turn; open.length > 0; step += 1 + this.#traits.turn) {
      const at = step % open.length;
      const next = open[at]!.next();
      if (next.done === true) open = open.filter((_, index) => index !== at);
      else yield next.value;
    }
    if (this.#body.stream_options?.include_usage !== true) return;
    yield { journal: null, data: JSON.stringify({ ...this.#head(true), choices: [], usage: this.#usage() }) };
  }

  *#ofChoice(choice: number, ids: readonly number[]): Generator<FakeEvent> {
    if (this.#traits.isChat) yield this.#event(choice, [], { role: 'assistant', content: '' }, null);
    for (const [index, id] of ids.entries()) {
      const finish = index === ids.length - 1 ? 'length' : null;
      yield this.#event(choice, [id], { content: textOf([id]) }, finish);
    }
  }

  #event(
    choice: number,
    tokenIds: readonly number[],
    delta: { readonly role?: string; readonly content: string },
    finish_reason: string | null,
  ): FakeEvent {
    const said = this.#traits.isChat ? { delta } : { text: delta.content, logprobs: null };
    const choices = [{ index: choice, ...said, finish_reason }];
    return { journal: { choice, tokenIds }, data: JSON.stringify({ ...this.#head(true), choices }) };
  }

  #head(isStream: boolean): object {
    const { isChat, requestId, created } = this.#traits;
    const kind = isChat ? `chat.completion${isStream ? '.chunk' : ''}` : 'text_completion';
    return {
      id: `${isChat ? 'chatcmpl' : 'cmpl'}-${requestId}`,
      object: kind,
      created,
      model: this.#body.model,
    };
  }

  #usage(): object {
    const completion_tokens = this.choices.reduce((sum, { length }) => sum + length, 0);
    return { prompt_tokens: 1, completion_tokens, total_tokens: completion_tokens + 1 };
  }
}
