// A request for a response as a request for a chat completion: the items become messages, the other fields get their names there.

import { areArguments } from '../../tokenizer/chat-messages.ts';
import { ImageSource } from '../../util/image-source.ts';
import type { AnswerFields } from '../protocol/answer-fields.ts';
import type { ChatCompletionRequest } from '../protocol/chat-completion.ts';
import type { CreateResponseRequest, TextFormat, Tool } from '../protocol/responses.ts';
import { type CallItem, type Item, type MessagePart, textAlone } from './items.ts';

type Message = ChatCompletionRequest['messages'][number];

/** Where errors of chat completions name a field that a response has under another name. */
export const FIELD_NAMES: Readonly<Record<string, string>> = {
  messages: 'input',
  response_format: 'text',
  reasoning_effort: 'reasoning',
};

/** Asks for the log-probabilities of the answer. */
const LOGPROBS = 'message.output_text.logprobs';

/** @param items the whole conversation, earlier responses included. */
export function toChatRequest(body: CreateResponseRequest, items: readonly Item[]): ChatCompletionRequest {
  const { instructions, tools, tool_choice, parallel_tool_calls } = body;
  const messages = toMessages(
    items.map((item, index) => ({ item, path: pathOf(item, index - items.length, body) })),
  );
  const hasTools = tools != null && tools.length > 0;
  return {
    ...answerFieldsOf(body),
    messages: instructions == null ? messages : [{ role: 'system', content: instructions }, ...messages],
    max_completion_tokens: body.max_output_tokens,
    logprobs: asksForLogprobs(body),
    top_logprobs: asksForLogprobs(body) ? body.top_logprobs : null,
    reasoning_effort: body.reasoning?.effort,
    ...(body.text?.format && { response_format: toResponseFormat(body.text.format) }),
    ...(hasTools && { tools: tools.map(toChatTool), parallel_tool_calls }),
    ...(tool_choice != null &&
      (hasTools || tool_choice !== 'auto') && { tool_choice: toChatChoice(tool_choice) }),
  };
}

function asksForLogprobs({ include }: Pick<CreateResponseRequest, 'include'>): boolean {
  return include?.includes(LOGPROBS) ?? false;
}

interface PlacedItem {
  readonly item: Item;
  /** For errors: `input[2]`. */
  readonly path: string;
}

/** @param fromEnd the last of all items is -1; those of the request are behind those of earlier responses. */
function pathOf({ id }: Item, fromEnd: number, { input }: CreateResponseRequest): string {
  const index = fromEnd + (typeof input === 'string' ? 1 : input.length);
  return index >= 0 ? `input[${index}]` : `the item ${id}`;
}

/** What an assistant thinks, says and calls, one item after the other, is one message. */
function toMessages(items: readonly PlacedItem[]): Message[] {
  const messages: Message[] = [];
  for (const item of items) {
    const last = messages.at(-1);
    const open = last?.role === 'assistant' ? last : null;
    const joined = open === null ? null : withItem(open, item);
    if (joined === null) messages.push(...messagesOf(item));
    else messages[messages.length - 1] = joined;
  }
  return messages;
}

/** An assistant's message with one more item; null where that begins another message. */
function withItem(message: Message, { item, path }: PlacedItem): Message | null {
  if (item.type === 'function_call' || item.type === 'custom_tool_call') {
    return { ...message, tool_calls: [...(message.tool_calls ?? []), toolCall(item)] };
  }
  const isThought = message.content === undefined && message.tool_calls === undefined;
  const isSaid = item.type === 'message' && item.role === 'assistant';
  return isThought && isSaid ? { ...message, content: contentOf(item.content, `${path}.content`) } : null;
}

function messagesOf({ item, path }: PlacedItem): Message[] {
  switch (item.type) {
    case 'message':
      return [{ role: item.role, content: contentOf(item.content, `${path}.content`) }];
    case 'function_call':
    case 'custom_tool_call':
      return [{ role: 'assistant', tool_calls: [toolCall(item)] }];
    case 'function_call_output':
    case 'custom_tool_call_output':
      return [
        { role: 'tool', tool_call_id: item.call_id, content: contentOf(item.output, `${path}.output`) },
      ];
    case 'reasoning': {
      const reasoning = textOf(item.content.length > 0 ? item.content : item.summary);
      // Other servers give thoughts back as an id, or encrypted.
      return reasoning === '' ? [] : [{ role: 'assistant', reasoning }];
    }
  }
}

function toolCall(item: CallItem) {
  const { call_id: id, name } = item;
  if (item.type === 'custom_tool_call') {
    return { id, type: 'custom', custom: { name, input: item.input } } as const;
  }
  // Templates take no arguments that were cut off.
  const written = areArguments(item.arguments) ? item.arguments : {};
  return { id, type: 'function', function: { name, arguments: written } } as const;
}

/** Without images, the text that most templates write the same. */
function contentOf(content: string | readonly MessagePart[], path: string): Message['content'] {
  if (typeof content === 'string') return content;
  return textAlone(content) ?? content.map((part, index) => toChatPart(part, `${path}[${index}]`));
}

function toChatPart(part: MessagePart, path: string) {
  if (part.type !== 'input_image') return { type: 'text', text: part.text };
  return { type: 'image_url', image_url: new ImageSource(part.image_url, path) };
}

function textOf(parts: readonly { readonly text: string }[]): string {
  return parts.map(({ text }) => text).join('\n');
}

function toChatTool(tool: Tool) {
  const { name, description } = tool;
  if (tool.type === 'custom') {
    return { type: 'custom', custom: { name, description, format: toChatFormat(tool.format) } } as const;
  }
  const { parameters, strict } = tool;
  return { type: 'function', function: { name, description, parameters, strict } } as const;
}

function toChatFormat(format: Extract<Tool, { type: 'custom' }>['format']) {
  if (format?.type !== 'grammar') return format;
  const { type, syntax, definition } = format;
  return { type, grammar: { syntax, definition } };
}

type Choice = NonNullable<CreateResponseRequest['tool_choice']>;

function toChatChoice(choice: Choice): NonNullable<ChatCompletionRequest['tool_choice']> {
  if (typeof choice === 'string') return choice;
  if (choice.type !== 'allowed_tools') return toNamedTool(choice);
  const { mode, tools } = choice;
  return { type: 'allowed_tools', allowed_tools: { mode, tools: tools.map(toNamedTool) } };
}

function toNamedTool({ type, name }: { readonly type: 'function' | 'custom'; readonly name: string }) {
  return type === 'function'
    ? ({ type, function: { name } } as const)
    : ({ type, custom: { name } } as const);
}

function toResponseFormat(format: TextFormat) {
  if (format.type !== 'json_schema') return { type: format.type };
  const { type, name, description, schema, strict } = format;
  const described = {
    name,
    ...(description != null && { description }),
    schema,
    ...(strict != null && { strict }),
  };
  return { type, json_schema: described };
}

/** The fields that have the same name and meaning in a chat completion: all but its own. */
function answerFieldsOf(body: CreateResponseRequest): AnswerFields {
  const {
    input: _input,
    instructions: _instructions,
    max_output_tokens: _maximum,
    top_logprobs: _top,
    include: _include,
    text: _text,
    reasoning: _reasoning,
    tools: _tools,
    tool_choice: _choice,
    parallel_tool_calls: _parallel,
    metadata: _metadata,
    store: _store,
    previous_response_id: _previous,
    user: _user,
    prompt_cache_key: _key,
    safety_identifier: _safety,
    ...answer
  } = body;
  return answer;
}
