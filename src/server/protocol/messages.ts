// POST /v1/messages and /v1/messages/count_tokens on the wire: the schemas of requests, and the blocks of a conversation.

import * as z from 'zod';
import { boundedTool, functionFields, functionParameters, MAX_TOOLS } from '../../parsers/tool-fields.ts';
import { EMPTY } from '../../sampling/sampling-fields.ts';
import { bounded, listOf } from '../../util/bounded-schemas.ts';
import { answerFields } from './answer-fields.ts';

/** Of one conversation, and of the messages that a chat template gets of it, to which each result of a tool is one. */
export const MAX_MESSAGES = 4096;
const MAX_BLOCKS = 1024;
/** Characters of all texts and numbers of a format, about. */
const MAX_FORMAT_SIZE = 262_144;
const MAX_FORMAT_DEPTH = 128;
const MAX_STOPS = 64;
const MAX_STOP_LENGTH = 1024;

const text = z.looseObject({ type: z.literal('text'), text: z.string() });
const texts = listOf(z.discriminatedUnion('type', [text], { error: 'must be "text"' }), MAX_BLOCKS);

const imageSource = z.discriminatedUnion(
  'type',
  [
    z.looseObject({
      type: z.literal('base64'),
      media_type: z.string().regex(/^image\/[\w.+-]+$/i, 'must be a type of images, such as "image/png"'),
      data: z.string(),
    }),
    z.looseObject({ type: z.literal('url'), url: z.string() }),
  ],
  { error: 'must be "base64" or "url": this server keeps no files' },
);

const image = z.looseObject({ type: z.literal('image'), source: imageSource });

const resultBlock = z.discriminatedUnion('type', [text, image], { error: 'must be "text" or "image"' });

const toolUse = z.looseObject({
  type: z.literal('tool_use'),
  id: z.string().min(1, 'must not be empty'),
  name: z.string().min(1, 'must not be empty'),
  input: z.looseObject({}),
});

const toolResult = z.looseObject({
  type: z.literal('tool_result'),
  tool_use_id: z.string().min(1, 'must not be empty'),
  content: z.union([z.string(), listOf(resultBlock, MAX_BLOCKS)]).nullish(),
  is_error: z.boolean().nullish(),
});

const thinking = z.looseObject({ type: z.literal('thinking'), thinking: z.string() });
/** Thoughts that only the server that had them can read. */
const redactedThinking = z.looseObject({ type: z.literal('redacted_thinking') });

const userBlock = z.discriminatedUnion('type', [text, image, toolResult], {
  error: 'must be "text", "image" or "tool_result"',
});
const assistantBlock = z.discriminatedUnion('type', [text, toolUse, thinking, redactedThinking], {
  error: 'must be "text", "tool_use", "thinking" or "redacted_thinking"',
});

const message = z.discriminatedUnion(
  'role',
  [
    z.looseObject({ role: z.literal('user'), content: z.union([z.string(), listOf(userBlock, MAX_BLOCKS)]) }),
    z.looseObject({
      role: z.literal('assistant'),
      content: z.union([z.string(), listOf(assistantBlock, MAX_BLOCKS)]),
    }),
    z.looseObject({ role: z.literal('system'), content: z.union([z.string(), texts]) }),
  ],
  { error: 'must be "user" or "assistant"' },
);

export type RequestMessage = z.output<typeof message>;
export type ImageBlock = z.output<typeof image>;

const customTool = z.looseObject({
  type: z.literal('custom').nullish(),
  ...functionFields,
  input_schema: functionParameters,
});

const tool = z.discriminatedUnion('type', [customTool], {
  error:
    'must be "custom": this server has no tools of its own, so the program that calls it must offer them with an input_schema',
});

export type RequestTool = z.output<typeof tool>;

const parallel = { disable_parallel_tool_use: z.boolean().nullish() };
const toolChoice = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.enum(['auto', 'any']), ...parallel }),
    z.looseObject({ type: z.literal('tool'), name: z.string(), ...parallel }),
    z.looseObject({ type: z.literal('none') }),
  ],
  { error: 'must be "auto", "any", "tool" or "none"' },
);

const format = z.looseObject({ type: z.literal('json_schema'), schema: z.looseObject({}) });
const boundedFormat = bounded(format, MAX_FORMAT_SIZE, MAX_FORMAT_DEPTH);

const { stop: _stop, ...shared } = answerFields;

/** Leaves out what it does not know. */
export const countTokensSchema = z.object({
  ...shared,
  messages: listOf(message, MAX_MESSAGES).refine((list) => list.length > 0, 'must have at least 1 element'),
  system: z.union([z.string(), texts]).nullish(),
  stop_sequences: listOf(
    z.string().min(1, 'must not contain empty strings').max(MAX_STOP_LENGTH),
    MAX_STOPS,
  ).nullish(),
  tools: listOf(boundedTool(tool), MAX_TOOLS).nullish(),
  tool_choice: toolChoice.nullish(),
  thinking: z.looseObject({ type: z.string() }).nullish(),
  output_config: z
    .looseObject({
      effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
      format: boundedFormat.nullish(),
    })
    .nullish(),
});

export const createMessageSchema = countTokensSchema.extend({ max_tokens: z.int().min(1) });

export const countTokensAnswer = z.object({ input_tokens: z.int() });

export type CountTokensRequest = z.output<typeof countTokensSchema>;
export type CreateMessageRequest = z.output<typeof createMessageSchema>;

/** Refused, with the values that ask for nothing. */
export const unavailableMessageFields: Readonly<Record<string, readonly unknown[]>> = {
  container: [EMPTY],
  mcp_servers: [EMPTY],
};

/** They name the user, or say what of a prompt is kept: a prefix cache needs no marks. */
export const ignoredMessageFields: ReadonlySet<string> = new Set([
  'cache_control',
  'context_management',
  'inference_geo',
  'speed',
  'betas',
]);
