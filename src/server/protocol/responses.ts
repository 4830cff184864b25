// POST /v1/responses and /v1/responses/input_tokens on the wire: the schema of requests, and the items of a conversation.

import * as z from 'zod';
import {
  allowedList,
  allowedMode,
  boundedTool,
  customFields,
  customGrammar,
  customText,
  FORMAT_ERROR,
  functionFields,
  functionParameters,
  MAX_TOOLS,
} from '../../parsers/tool-fields.ts';
import { EMPTY } from '../../sampling/sampling-fields.ts';
import { atMost, bounded, listOf } from '../../util/bounded-schemas.ts';
import { answerFields } from './answer-fields.ts';

/** Of one conversation, those of earlier responses included. */
export const MAX_ITEMS = 4096;
const MAX_PARTS = 1024;
/** Characters of all texts and numbers of a format, about. */
const MAX_FORMAT_SIZE = 262_144;
const MAX_FORMAT_DEPTH = 128;
const MAX_INCLUDED = 32;
const MAX_METADATA = 16;
const MAX_METADATA_KEY = 64;
const MAX_METADATA_VALUE = 512;
const MAX_ID = 512;

const id = z.string().min(1, 'must not be empty').max(MAX_ID);
const status = z.enum(['in_progress', 'completed', 'incomplete']).nullish();

const textPart = z.looseObject({ type: z.enum(['input_text', 'output_text', 'text']), text: z.string() });
const refusalPart = z.looseObject({ type: z.literal('refusal'), refusal: z.string() });

const imagePart = z.looseObject({
  type: z.literal('input_image'),
  file_id: z
    .null('is not served, because this server keeps no files: send the image as image_url')
    .optional(),
  /** A data: URL, or its address on the web. */
  image_url: z.string(),
  detail: z.string().nullish(),
});

const messageParts = listOf(
  z.discriminatedUnion('type', [textPart, refusalPart, imagePart], {
    error: 'must be "input_text", "input_image", "output_text" or "refusal"',
  }),
  MAX_PARTS,
);

const messageItem = z.looseObject({
  type: z.literal('message').optional(),
  id: id.nullish(),
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content: z.union([z.string(), messageParts]),
  status,
});

const functionCallItem = z.looseObject({
  type: z.literal('function_call'),
  id: id.nullish(),
  call_id: id,
  name: z.string().min(1, 'must not be empty'),
  arguments: z.string(),
  status,
});

const outputParts = listOf(
  z.discriminatedUnion(
    'type',
    [z.looseObject({ type: z.literal('input_text'), text: z.string() }), imagePart],
    {
      error: 'must be "input_text" or "input_image"',
    },
  ),
  MAX_PARTS,
);

const customCallItem = z.looseObject({
  type: z.literal('custom_tool_call'),
  id: id.nullish(),
  call_id: id,
  name: z.string().min(1, 'must not be empty'),
  input: z.string(),
  status,
});

/** What a function or a custom tool gave. */
const callOutputItem = z.looseObject({
  type: z.enum(['function_call_output', 'custom_tool_call_output']),
  id: id.nullish(),
  call_id: id,
  output: z.union([z.string(), outputParts]),
  status,
});

const reasoningItem = z.looseObject({
  type: z.literal('reasoning'),
  id: id.nullish(),
  summary: listOf(z.looseObject({ text: z.string() }), MAX_PARTS).nullish(),
  content: listOf(z.looseObject({ text: z.string() }), MAX_PARTS).nullish(),
  status,
});

/** Stands for an item of a response that is kept. */
const itemReference = z.looseObject({ type: z.literal('item_reference'), id });

const inputItem = z.discriminatedUnion(
  'type',
  [messageItem, functionCallItem, customCallItem, callOutputItem, reasoningItem, itemReference],
  {
    error:
      'must be "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", ' +
      '"reasoning" or "item_reference"',
  },
);

export type InputItem = z.output<typeof inputItem>;

const functionTool = z.looseObject({
  type: z.literal('function'),
  ...functionFields,
  parameters: functionParameters.nullish(),
});

const customTool = z.looseObject({
  type: z.literal('custom'),
  ...customFields,
  format: z
    .discriminatedUnion(
      'type',
      [customText, z.looseObject({ type: z.literal('grammar'), ...customGrammar })],
      FORMAT_ERROR,
    )
    .nullish(),
});

const tool = z.discriminatedUnion('type', [functionTool, customTool], {
  error:
    'must be "function" or "custom": this server has no tools of its own, so the program that calls it must offer them as one of these',
});

export type Tool = z.output<typeof tool>;

const namedTool = z.looseObject({
  type: z.enum(['function', 'custom'], 'must be "function" or "custom": other tools are not served'),
  name: z.string(),
});

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.discriminatedUnion(
    'type',
    [
      namedTool,
      z.looseObject({
        type: z.literal('allowed_tools'),
        mode: allowedMode,
        tools: allowedList(namedTool),
      }),
    ],
    { error: 'must be "function", "custom" or "allowed_tools": other tools are not served' },
  ),
]);

const textFormat = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.literal('text') }),
    z.looseObject({ type: z.literal('json_object') }),
    z.looseObject({
      type: z.literal('json_schema'),
      name: z.string(),
      description: z.string().nullish(),
      schema: z.looseObject({}),
      strict: z.boolean().nullish(),
    }),
  ],
  { error: 'must be "text", "json_object" or "json_schema"' },
);

const boundedFormat = bounded(textFormat, MAX_FORMAT_SIZE, MAX_FORMAT_DEPTH);

export type TextFormat = z.output<typeof textFormat>;

const metadata = atMost<Record<string, unknown>>(MAX_METADATA, 'pairs').pipe(
  z.record(z.string().max(MAX_METADATA_KEY), z.string().max(MAX_METADATA_VALUE)),
);

/** Leaves out what it does not know. */
export const createResponseSchema = z.object({
  ...answerFields,
  input: z.union([
    z.string().min(1, 'must not be empty'),
    listOf(inputItem, MAX_ITEMS).refine((list) => list.length > 0, 'must have at least 1 element'),
  ]),
  instructions: z.string().nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  /** Most probable tokens beside each token, where `include` asks for log-probabilities. */
  top_logprobs: z.int().min(0).nullish(),
  include: listOf(z.string(), MAX_INCLUDED).nullish(),
  text: z.looseObject({ format: boundedFormat.nullish(), verbosity: z.string().nullish() }).nullish(),
  reasoning: z
    .looseObject({
      effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
      summary: z.enum(['auto', 'concise', 'detailed']).nullish(),
    })
    .nullish(),
  tools: listOf(boundedTool(tool), MAX_TOOLS).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  metadata: metadata.nullish(),
  store: z.boolean().nullish(),
  previous_response_id: z.string().nullish(),
  user: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
  safety_identifier: z.string().nullish(),
});

export type CreateResponseRequest = z.output<typeof createResponseSchema>;

/** Refused, with the values that ask for nothing. */
export const unavailableResponseFields: Readonly<Record<string, readonly unknown[]>> = {
  background: [false],
  truncation: ['disabled'],
  conversation: [EMPTY],
  prompt: [EMPTY],
  context_management: [EMPTY],
  moderation: [EMPTY],
};

/** They say how an answer is billed or sent, or bound what this server never does by itself. */
export const ignoredResponseFields: ReadonlySet<string> = new Set([
  'service_tier',
  'prompt_cache_retention',
  'stream_options',
  'max_tool_calls',
]);

export const inputTokensAnswer = z.object({
  object: z.literal('response.input_tokens'),
  input_tokens: z.int(),
});

export const inputItemsQuery = z.object({
  limit: z.coerce.number().int().min(1).max(100).default(20),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: z.string().optional(),
});
