// The deltas of a chat as parts of the `ai` SDK: blocks of text, of thoughts and of the input of tools, each with a beginning and an
// end, then why the answer ended and what it cost.

import type {
  LanguageModelV3Content,
  LanguageModelV3GenerateResult,
  LanguageModelV3StreamPart,
} from '@ai-sdk/provider';
import type { ChatCompletionDelta } from '../llm/request-output.ts';
import type { CallDelta } from '../parsers/answer-fields.ts';

type Part = LanguageModelV3StreamPart;
type Finish = Extract<Part, { type: 'finish' }>;

/** The block to which parts are added. */
type Block =
  | { readonly kind: 'text' | 'reasoning'; readonly id: string }
  | { readonly kind: 'call'; readonly id: string; readonly name: string; input: string };

class Blocks {
  #open: Block | null = null;
  #numBlocks = 0;
  #hasCalls = false;

  get hasCalls(): boolean {
    return this.#hasCalls;
  }

  /** A piece of text or of a thought. */
  *add(kind: 'text' | 'reasoning', delta: string): Generator<Part> {
    if (this.#open?.kind !== kind) {
      yield* this.close();
      this.#open = { kind, id: String(this.#numBlocks++) };
      yield { type: `${kind}-start`, id: this.#open.id };
    }
    yield { type: `${kind}-delta`, id: this.#open.id, delta };
  }

  /** Id and name of a call are in its first delta only. */
  *addCall({ id, function: { name, arguments: delta } }: CallDelta): Generator<Part> {
    if (id !== undefined && name !== undefined) {
      yield* this.close();
      this.#hasCalls = true;
      this.#open = { kind: 'call', id, name, input: '' };
      yield { type: 'tool-input-start', id, toolName: name };
    }
    if (this.#open?.kind !== 'call' || delta === '') return;
    this.#open.input += delta;
    yield { type: 'tool-input-delta', id: this.#open.id, delta };
  }

  *close(): Generator<Part> {
    const block = this.#open;
    this.#open = null;
    if (block === null) return;
    if (block.kind !== 'call') {
      yield { type: `${block.kind}-end`, id: block.id };
      return;
    }
    const { id, name, input } = block;
    yield { type: 'tool-input-end', id };
    yield { type: 'tool-call', toolCallId: id, toolName: name, input };
  }
}

/** The last part is the end, with the usage. */
export async function* streamParts(deltas: AsyncIterable<ChatCompletionDelta>): AsyncGenerator<Part, void> {
  const blocks = new Blocks();
  let numTokens = 0;
  let numReasoningTokens = 0;
  for await (const given of deltas) {
    const { reasoning, content, tool_calls = [] } = given.delta;
    numTokens += given.token_ids.length;
    numReasoningTokens += given.num_reasoning_tokens;
    if (reasoning !== undefined) yield* blocks.add('reasoning', reasoning);
    if (content !== undefined) yield* blocks.add('text', content);
    for (const call of tool_calls) yield* blocks.addCall(call);
    if (given.finish_reason === null) continue;
    yield* blocks.close();
    yield finishOf(given, { numTokens, numReasoningTokens, hasCalls: blocks.hasCalls });
  }
}

function finishOf(
  { finish_reason: raw, num_prompt_tokens, num_cached_tokens }: ChatCompletionDelta,
  answer: { readonly numTokens: number; readonly numReasoningTokens: number; readonly hasCalls: boolean },
): Finish {
  const ended = raw === 'stop' || raw === 'length' ? raw : 'other';
  return {
    type: 'finish',
    finishReason: {
      unified: ended === 'stop' && answer.hasCalls ? 'tool-calls' : ended,
      raw: raw ?? undefined,
    },
    usage: {
      inputTokens: {
        total: num_prompt_tokens,
        noCache: num_prompt_tokens - num_cached_tokens,
        cacheRead: num_cached_tokens,
        cacheWrite: undefined,
      },
      outputTokens: {
        total: answer.numTokens,
        text: answer.numTokens - answer.numReasoningTokens,
        reasoning: answer.numReasoningTokens,
      },
    },
  };
}

/** The answer in one piece. */
export async function collectParts(
  parts: AsyncIterable<Part>,
): Promise<Pick<LanguageModelV3GenerateResult, 'content' | 'finishReason' | 'usage'>> {
  const content: LanguageModelV3Content[] = [];
  const open = new Map<string, { type: 'text' | 'reasoning'; text: string }>();
  for await (const part of parts) {
    if (part.type === 'text-start' || part.type === 'reasoning-start') {
      const block = {
        type: part.type === 'text-start' ? ('text' as const) : ('reasoning' as const),
        text: '',
      };
      open.set(part.id, block);
      content.push(block);
    } else if (part.type === 'text-delta' || part.type === 'reasoning-delta') {
      open.get(part.id)!.text += part.delta;
    } else if (part.type === 'tool-call') content.push(part);
    else if (part.type === 'finish') return { content, finishReason: part.finishReason, usage: part.usage };
  }
  throw new Error('the answer has no end');
}
