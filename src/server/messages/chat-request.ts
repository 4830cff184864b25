// A request for a message as a request for a chat completion: the blocks become messages, the other fields get their names there.

import { InvalidRequestError } from '../../errors.ts';
import { ImageSource } from '../../util/image-source.ts';
import type { AnswerFields } from '../protocol/answer-fields.ts';
import type { ChatCompletionRequest } from '../protocol/chat-completion.ts';
import {
  type CountTokensRequest,
  type CreateMessageRequest,
  type ImageBlock,
  MAX_MESSAGES,
  type RequestMessage,
  type RequestTool,
} from '../protocol/messages.ts';

type Message = ChatCompletionRequest['messages'][number];
type Choice = NonNullable<CountTokensRequest['tool_choice']>;

/** Where errors of chat completions name a field that a message has under another name. */
export const FIELD_NAMES: Readonly<Record<string, string>> = {
  stop: 'stop_sequences',
  response_format: 'output_config',
  reasoning_effort: 'output_config',
};

/** @throws InvalidRequestError for more messages than a chat may have. */
export function toChatRequest(body: CountTokensRequest | CreateMessageRequest): ChatCompletionRequest {
  const { system, tools, tool_choice: choice, thinking, output_config } = body;
  const messages = body.messages.flatMap((message, index) =>
    toMessages(message, `messages[${index}].content`),
  );
  if (system != null) messages.unshift({ role: 'system', content: textOf(system) });
  checkNumMessages(messages.length);
  const hasTools = tools != null && tools.length > 0;
  const schema = output_config?.format?.schema;
  return {
    ...answerFieldsOf(body),
    messages,
    max_completion_tokens: 'max_tokens' in body ? body.max_tokens : null,
    stop: body.stop_sequences,
    reasoning_effort: output_config?.effort,
    ...(isBegun(messages) && { continue_final_message: true, add_generation_prompt: false }),
    ...(thinking != null && {
      chat_template_kwargs: {
        ...body.chat_template_kwargs,
        ...thinkingVariables(thinking.type !== 'disabled'),
      },
    }),
    ...(schema !== undefined && {
      response_format: {
        type: 'json_schema' as const,
        json_schema: { name: 'output', schema, strict: true },
      },
    }),
    ...(hasTools && { tools: tools.map(toChatTool) }),
    ...(hasTools && choice != null && toChatChoice(choice)),
  };
}

/** A last message of the assistant is the beginning of the answer. */
function isBegun(messages: readonly Message[]): boolean {
  const last = messages.at(-1);
  return last?.role === 'assistant' && last.tool_calls === undefined;
}

/** Templates have one of two names for it. */
function thinkingVariables(isOn: boolean): Record<string, unknown> {
  return { enable_thinking: isOn, thinking: isOn };
}

function checkNumMessages(numMessages: number): void {
  if (numMessages <= MAX_MESSAGES) return;
  throw new InvalidRequestError(
    `A conversation may have at most ${MAX_MESSAGES} messages and results of tools, got ${numMessages}`,
    { param: 'messages' },
  );
}

/** @param path of its content. */
function toMessages(message: RequestMessage, path: string): Message[] {
  switch (message.role) {
    case 'system':
      return [{ role: 'system', content: textOf(message.content) }];
    case 'assistant':
      return [assistantMessage(message.content)];
    case 'user':
      return userMessages(message.content, path);
  }
}

type Blocks<R extends RequestMessage['role']> = Extract<RequestMessage, { role: R }>['content'];

function assistantMessage(blocks: Blocks<'assistant'>): Message {
  if (typeof blocks === 'string') return { role: 'assistant', content: blocks };
  const said = blocks.filter((block) => block.type === 'text');
  const thoughts = blocks.flatMap((block) => (block.type === 'thinking' ? [block.thinking] : []));
  const calls = blocks.flatMap((block) =>
    block.type === 'tool_use'
      ? [
          {
            id: block.id,
            type: 'function' as const,
            function: { name: block.name, arguments: block.input },
          },
        ]
      : [],
  );
  return {
    role: 'assistant',
    content: textOf(said),
    ...(thoughts.length > 0 && { reasoning: thoughts.join('\n') }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** Each result of a tool is a message of its own, and so is what is between two of them. */
function userMessages(blocks: Blocks<'user'>, path: string): Message[] {
  if (typeof blocks === 'string') return [{ role: 'user', content: blocks }];
  const messages: Message[] = [];
  let said: Part[] = [];
  for (const [index, block] of blocks.entries()) {
    if (block.type !== 'tool_result') {
      if (said.length === 0) messages.push({ role: 'user', content: said });
      said.push(toPart(block, `${path}[${index}]`));
      continue;
    }
    said = [];
    const result = block.content ?? '';
    const content =
      typeof result === 'string'
        ? result
        : result.map((part, at) => toPart(part, `${path}[${index}].content[${at}]`));
    messages.push({ role: 'tool', tool_call_id: block.tool_use_id, content });
  }
  return messages.length > 0 ? messages.map(withPlainText) : [{ role: 'user', content: '' }];
}

type Part = Extract<Message['content'], readonly unknown[]>[number];

function toPart(block: ImageBlock | { readonly type: 'text'; readonly text: string }, path: string): Part {
  if (block.type === 'text') return { type: 'text', text: block.text };
  const { source } = block;
  const url = source.type === 'url' ? source.url : `data:${source.media_type};base64,${source.data}`;
  return { type: 'image_url', image_url: new ImageSource(url, path) };
}

/** Without images, the text that most templates write the same. */
function withPlainText(message: Message): Message {
  const { content } = message;
  if (!Array.isArray(content) || content.some(({ type }) => type !== 'text')) return message;
  return { ...message, content: content.map(({ text }) => text).join('\n') };
}

function textOf(content: string | readonly { readonly text: string }[]): string {
  return typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');
}

function toChatTool({ name, description, input_schema, strict }: RequestTool) {
  return { type: 'function', function: { name, description, parameters: input_schema, strict } } as const;
}

function toChatChoice(choice: Choice) {
  switch (choice.type) {
    case 'none':
      return { tool_choice: 'none' } as const;
    case 'tool':
      return {
        tool_choice: { type: 'function', function: { name: choice.name } },
        ...parallel(choice),
      } as const;
    default:
      return { tool_choice: choice.type === 'any' ? 'required' : 'auto', ...parallel(choice) } as const;
  }
}

function parallel({ disable_parallel_tool_use: isOne }: Exclude<Choice, { type: 'none' }>) {
  return isOne == null ? {} : { parallel_tool_calls: !isOne };
}

/** The fields that have the same name and meaning in a chat completion: all but its own. */
function answerFieldsOf(body: CountTokensRequest): AnswerFields {
  const {
    messages: _messages,
    system: _system,
    stop_sequences: _stops,
    tools: _tools,
    tool_choice: _choice,
    thinking: _thinking,
    output_config: _config,
    ...answer
  } = body;
  return answer;
}
