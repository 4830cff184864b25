// The items of a conversation as they are kept and listed: each with an id and a status, contents as lists of parts.

import { checkArguments } from '../../tokenizer/chat-messages.ts';
import type { CreateResponseRequest, InputItem } from '../protocol/responses.ts';

interface ItemHead {
  readonly id: string;
  readonly status: 'in_progress' | 'completed' | 'incomplete';
}

interface TextPart {
  readonly type: 'input_text' | 'output_text' | 'reasoning_text';
  readonly text: string;
  readonly annotations?: readonly object[];
  readonly logprobs?: readonly object[];
}

export interface ImagePart {
  readonly type: 'input_image';
  readonly image_url: string;
  readonly detail: string;
  readonly file_id: null;
}

export type MessagePart = TextPart | ImagePart;

export interface MessageItem extends ItemHead {
  readonly type: 'message';
  readonly role: 'user' | 'assistant' | 'system' | 'developer';
  readonly content: readonly MessagePart[];
}

interface FunctionCallItem extends ItemHead {
  readonly type: 'function_call';
  readonly call_id: string;
  readonly name: string;
  /** JSON, as the model wrote it. */
  readonly arguments: string;
}

interface CustomCallItem extends ItemHead {
  readonly type: 'custom_tool_call';
  readonly call_id: string;
  readonly name: string;
  readonly input: string;
}

export type CallItem = FunctionCallItem | CustomCallItem;

interface CallOutputItem extends ItemHead {
  readonly type: 'function_call_output' | 'custom_tool_call_output';
  readonly call_id: string;
  /** Parts where images are among them. */
  readonly output: string | readonly MessagePart[];
}

export interface ReasoningItem extends ItemHead {
  readonly type: 'reasoning';
  readonly summary: readonly { readonly text: string }[];
  readonly content: readonly TextPart[];
}

export type OutputItem = MessageItem | CallItem | ReasoningItem;
export type Item = OutputItem | CallOutputItem;

const PREFIXES: Readonly<Record<Item['type'], string>> = {
  message: 'msg',
  function_call: 'fc',
  function_call_output: 'fco',
  custom_tool_call: 'ctc',
  custom_tool_call_output: 'ctco',
  reasoning: 'rs',
};

/** The id of item number `index` of an answer or, marked by `in`, of its input: the same on every instance that writes it. */
export function itemId(type: Item['type'], answerId: string, index: number | `in${number}`): string {
  return `${PREFIXES[type]}_${answerId}_${index}`;
}

/** The answer for which `itemId` made an id. */
export function answerIdOf(id: string): string {
  return id.slice(id.indexOf('_') + 1, id.lastIndexOf('_'));
}

/**
 * @param answerId makes the ids of items that came without one.
 * @param referenced gives the item that a reference names.
 * @throws InvalidRequestError naming the arguments of a call that are none, though they were not cut off.
 */
export function readInput(
  input: CreateResponseRequest['input'],
  answerId: string,
  referenced: (id: string) => Item,
): readonly Item[] {
  const given: readonly InputItem[] =
    typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : input;
  return given.map((item, index) => {
    if (item.type === 'item_reference') return referenced(item.id);
    if (item.type === 'function_call' && item.status !== 'incomplete')
      checkArguments(item.arguments, `input[${index}].arguments`, 'input');
    return readItem(item, item.id ?? itemId(item.type ?? 'message', answerId, `in${index}`));
  });
}

function readItem(item: Exclude<InputItem, { type: 'item_reference' }>, id: string): Item {
  const head = { id, status: item.status ?? 'completed' } as const;
  switch (item.type) {
    case 'function_call': {
      const { type, call_id, name, arguments: written } = item;
      return { ...head, type, call_id, name, arguments: written };
    }
    case 'custom_tool_call': {
      const { type, call_id, name, input } = item;
      return { ...head, type, call_id, name, input };
    }
    case 'function_call_output':
    case 'custom_tool_call_output': {
      const { type, call_id, output } = item;
      if (typeof output === 'string') return { ...head, type, call_id, output };
      const parts = output.map((part) => partOf('user', part));
      return { ...head, type, call_id, output: textAlone(parts) ?? parts };
    }
    case 'reasoning': {
      const { type, summary, content } = item;
      const parts = (content ?? []).map(({ text }) => ({ type: 'reasoning_text', text }) as const);
      return { ...head, type, summary: summary ?? [], content: parts };
    }
    default: {
      const { role, content } = item;
      const parts = typeof content === 'string' ? [{ type: 'input_text', text: content } as const] : content;
      return { ...head, type: 'message', role, content: parts.map((part) => partOf(role, part)) };
    }
  }
}

type GivenPart = Exclude<Extract<InputItem, { role: string }>['content'], string>[number];

function partOf(role: MessageItem['role'], part: GivenPart): MessagePart {
  if (part.type === 'input_image') {
    const { type, image_url, detail } = part;
    return { type, image_url, detail: detail ?? 'auto', file_id: null };
  }
  const text = part.type === 'refusal' ? part.refusal : part.text;
  return role === 'assistant' ? outputText(text, []) : { type: 'input_text', text };
}

/** A line each; null where there are images. */
export function textAlone(parts: readonly MessagePart[]): string | null {
  const texts = parts.flatMap((part) => (part.type === 'input_image' ? [] : [part.text]));
  return texts.length === parts.length ? texts.join('\n') : null;
}

export function outputText<L extends Iterable<object>>(text: string, logprobs: L) {
  return { type: 'output_text', text, annotations: [], logprobs } as const;
}
