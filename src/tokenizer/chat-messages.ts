// The messages that a caller gives, over HTTP or in a program, become the plain conversation that templates render;
// what cannot be put into a prompt is refused by name.

import * as z from 'zod';
import { InvalidRequestError, MalformedRequestError, NotAvailableError } from '../errors.ts';
import { listOf } from '../util/bounded-schemas.ts';
import { checkNumImages, ImageSource } from '../util/image-source.ts';
import { describedAs } from '../util/json-schema.ts';
import { parseJson } from '../util/parse-json.ts';
import { preview } from '../util/preview.ts';
import type { ChatMessage, ContentPart, ToolCallMessage } from './tokenizer.ts';

/** Of one message. */
const MAX_PARTS = 1024;
/** Characters. A role is repeated in the answer. */
const MAX_ROLE = 64;
const MAX_NAME = 256;

const MAX_CALLS = 1024;
const MAX_CALL_ID = 256;

const calledName = z.string().min(1, 'must not be empty').max(MAX_NAME);

const calledFunction = z.looseObject({
  name: calledName,
  /** JSON text; some clients send the object. */
  arguments: z.union([z.string(), z.record(z.string(), z.unknown())]).nullish(),
});

const callId = z.string().max(MAX_CALL_ID).nullish();

const functionCall = z.looseObject({
  id: callId,
  type: z.literal('function').nullish(),
  function: calledFunction,
});

const customCall = z.looseObject({
  id: callId,
  type: z.literal('custom'),
  custom: z.looseObject({ name: calledName, input: z.string() }),
});

const toolCall = z.discriminatedUnion('type', [functionCall, customCall], {
  error: 'must be "function" or "custom"',
});

/** Some clients send the URL itself. How closely to look (`detail`) is the model's affair. */
const imageUrl = z.union([z.string(), z.looseObject({ url: z.string() }).transform(({ url }) => url)]);

/** What is wrong with a part is said in the words of its model: the check is of the kind of part alone. */
const contentPart = describedAs(
  z.discriminatedUnion('type', [
    z.looseObject({ type: z.literal('text'), text: z.string() }),
    z.looseObject({ type: z.literal('refusal'), refusal: z.string() }),
    z.looseObject({ type: z.literal('image_url'), image_url: imageUrl }),
  ]),
  z.looseObject({ type: z.string() }),
);

export const chatMessageSchema = z.looseObject({
  role: z.string().min(1, 'must not be empty').max(MAX_ROLE),
  /** Checked in detail when the messages are turned into a prompt. */
  content: z.union([z.string(), listOf(contentPart, MAX_PARTS)]).nullish(),
  name: z.string().max(MAX_NAME).nullish(),
  /** Of an assistant: what it said in the place of an answer. */
  refusal: z.string().nullish(),
  /** Of an assistant: the functions and custom tools that it called. */
  tool_calls: listOf(toolCall, MAX_CALLS).nullish(),
  /** The older form of one call. */
  function_call: calledFunction.nullish(),
  /** Of a tool: the call that it answers. */
  tool_call_id: z.string().max(MAX_CALL_ID).nullish(),
  /** Of an assistant: what it thought. */
  reasoning: z.string().nullish(),
  reasoning_content: z.string().nullish(),
});

type RequestMessage = z.output<typeof chatMessageSchema>;
type RequestPart = z.output<typeof contentPart>;

export interface Conversation {
  readonly messages: readonly ChatMessage[];
  /** Of its parts that are images, in their order. */
  readonly images: readonly ImageSource[];
}

interface ConversationOptions {
  /** Images that it may have; null where the model reads only text. */
  readonly maxImages: number | null;
  /** Of the list, for errors. */
  readonly path?: string;
}

/** Where the parts of a conversation leave their images. */
interface ImageList {
  readonly maxImages: number | null;
  readonly sources: ImageSource[];
}

/** @throws NotAvailableError or InvalidRequestError naming the message and the reason. */
export function toConversation(
  messages: readonly RequestMessage[],
  { maxImages, path = 'messages' }: ConversationOptions,
): Conversation {
  const images: ImageList = { maxImages, sources: [] };
  const written = messages.map((message, index) => toChatMessage(message, `${path}[${index}]`, images));
  checkNumImages(images.sources.length, maxImages, { path, param: 'messages' });
  return { messages: written, images: images.sources };
}

function toChatMessage(message: RequestMessage, path: string, images: ImageList): ChatMessage {
  refuseAudio(message, path);
  const { role, name, tool_call_id } = message;
  const calls = callsOf(message, path);
  const thought = message.reasoning ?? message.reasoning_content ?? null;
  return {
    // Templates know the answers of functions by the newer name only.
    role: role === 'function' ? 'tool' : role,
    content: contentOf(message, `${path}.content`, images),
    ...(typeof name === 'string' && { name }),
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(typeof tool_call_id === 'string' && { tool_call_id }),
    ...(thought !== null && { reasoning: thought, reasoning_content: thought, thinking: thought }),
  };
}

function callsOf({ tool_calls, function_call }: RequestMessage, path: string): ToolCallMessage[] {
  const calls = (tool_calls ?? []).map((call, index) => ({
    id: call.id ?? '',
    type: 'function' as const,
    function: calledBy(call, `${path}.tool_calls[${index}].function`),
  }));
  if (function_call == null) return calls;
  const called = {
    name: function_call.name,
    arguments: argumentsOf(function_call, `${path}.function_call`),
  };
  return [...calls, { id: '', type: 'function', function: called }];
}

function calledBy(call: z.output<typeof toolCall>, path: string): ToolCallMessage['function'] {
  // To the model it is a function of one string.
  if (call.type === 'custom') return { name: call.custom.name, arguments: { input: call.custom.input } };
  return { name: call.function.name, arguments: argumentsOf(call.function, path) };
}

function argumentsOf(
  { arguments: given }: z.output<typeof calledFunction>,
  path: string,
): ToolCallMessage['function']['arguments'] {
  if (given === null || given === undefined || given === '') return {};
  if (typeof given === 'string') checkArguments(given, `${path}.arguments`, 'messages');
  return given;
}

const argumentsObject = z.record(z.string(), z.unknown());

/** Whether a text is arguments of a call as templates take them; none at all are, too. */
export function areArguments(text: string): boolean {
  return text === '' || argumentsObject.safeParse(parseJson(text)).success;
}

/**
 * @param param the field of the request that they came in.
 * @throws InvalidRequestError naming `path`.
 */
export function checkArguments(text: string, path: string, param: string): void {
  if (areArguments(text)) return;
  throw new InvalidRequestError(`${path} must be the JSON text of an object, got ${preview(text)}`, {
    param,
  });
}

/** It would be lost on the way into the prompt. */
function refuseAudio({ audio }: RequestMessage, path: string): void {
  if (audio === undefined || audio === null) return;
  throw new NotAvailableError(`${path}.audio is not available yet in this version of svc; leave it out`, {
    param: 'messages',
  });
}

function contentOf(
  { role, content, refusal }: RequestMessage,
  path: string,
  images: ImageList,
): ChatMessage['content'] {
  if (content === null || content === undefined) {
    // An assistant may have said nothing: it called a function. A function may have had nothing to say.
    if (role === 'assistant' || role === 'tool' || role === 'function') return refusal ?? '';
    throw new MalformedRequestError(`${path} must be a string or an array of parts of type "text"`, {
      param: 'messages',
    });
  }
  if (typeof content === 'string') return refusal ? [content, refusal].filter(Boolean).join('\n') : content;
  const parts = content.map((part, index) => toPart(part, `${path}[${index}]`, images));
  return refusal ? [...parts, { type: 'text', text: refusal }] : parts;
}

function toPart(part: RequestPart, path: string, images: ImageList): ContentPart {
  const { type } = part;
  if (type === 'image_url' && images.maxImages !== null) return imagePart(part, path, images);
  if (type !== 'text' && type !== 'refusal') throw unreadablePart(part, path, images);
  // What an assistant said instead of an answer is text to the model.
  const text = part[type];
  if (typeof text !== 'string') {
    throw new MalformedRequestError(`${path}.${type} must be a string`, { param: 'messages' });
  }
  return { type: 'text', text };
}

function imagePart({ image_url: given }: RequestPart, path: string, images: ImageList): ContentPart {
  images.sources.push(given instanceof ImageSource ? given : new ImageSource(urlOf(given, path), path));
  return { type: 'image' };
}

function urlOf(given: unknown, path: string): string {
  const parsed = imageUrl.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new MalformedRequestError(
    `${path}.image_url must be {"url": "..."} with the image as a data: URL, or its address on the web`,
    { param: 'messages' },
  );
}

function unreadablePart({ type, image_url }: RequestPart, path: string, { maxImages }: ImageList): Error {
  const [reads, types] =
    maxImages === null ? ['only text', '"text"'] : ['texts and images', '"text" or "image_url"'];
  const message =
    image_url instanceof ImageSource
      ? `${image_url.path} is an image, and this model reads only text: leave it out`
      : `${path} is of type ${preview(type)}, and this model reads ${reads}: send parts of type ${types}`;
  return new InvalidRequestError(message, { param: 'messages' });
}

/** Variables of a template that are set from the request itself. */
const RESERVED_VARIABLES = ['messages', 'add_generation_prompt', 'tools', 'documents'];

/** The first of the extra `variables` for a template that would replace a field of the request; null without one. */
export function reservedVariable(variables: object): string | null {
  return RESERVED_VARIABLES.find((name) => Object.hasOwn(variables, name)) ?? null;
}
