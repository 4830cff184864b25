// What the HTTP fuzz sends: bodies that are right, bodies in which fields are as the server's own OpenAPI document says they may
// be, or just not any more, and bodies that are damaged. A new route needs a line here.

import { z } from 'zod';
import { type Draw, mutateBytes, mutateJson } from './mutations.ts';

const MESSAGES = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
  { role: 'assistant', content: null },
  { role: 'user', name: 'Ann', content: 'Go on — 🎉' },
];

/** Schemas and patterns that cost much, or never end. */
const HOSTILE_SCHEMAS: readonly object[] = [
  { $ref: '#' },
  { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' },
  { type: 'string', pattern: '^(a+)+$' },
  { type: 'string', pattern: '((((a{1,99}){1,99}){1,99}){1,99})' },
  { type: 'string', pattern: '(' },
  { type: 'array', minItems: 2 ** 40 },
  { enum: Array.from({ length: 2000 }, (_, index) => `${index}`) },
  { allOf: [{ type: 'string' }, { type: 'number' }] },
  { type: 'object', properties: { ['__proto__']: { type: 'string' }, constructor: true } },
  { type: 'object', patternProperties: { '.*': false }, required: ['a'] },
];

const schemaFormat = (schema: object) => ({
  type: 'json_schema',
  json_schema: { name: 'x', strict: true, schema },
});

const SCHEMA = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };

const tool = (parameters: object) => ({ type: 'function', function: { name: 'f', parameters } });

/** Enforces a call of a function with these arguments. */
const callOf = (parameters: object) => ({ tools: [tool(parameters)], tool_choice: 'required' });

/** A conversation in which a function was called. */
const CALLS = [
  { role: 'user', content: 'Hello' },
  {
    role: 'assistant',
    reasoning: 'f knows.',
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":"b"}' } }],
  },
  { role: 'tool', tool_call_id: 'call_1', content: 'c' },
];

export interface FuzzRoute {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** Right ones. */
  readonly bodies: readonly object[];
}

const get = (path: string): FuzzRoute => ({ method: 'GET', path, bodies: [] });
const post = (path: string, ...bodies: readonly object[]): FuzzRoute => ({ method: 'POST', path, bodies });

const completion = {
  prompt: 'Hello',
  max_tokens: 1,
  n: 2,
  logprobs: 1,
  echo: true,
  stop: ['x', 'yz'],
  seed: 7,
  logit_bias: { 5: 1 },
  stream: false,
};
const chat = {
  messages: MESSAGES,
  max_completion_tokens: 1,
  logprobs: true,
  top_logprobs: 2,
  temperature: 0.5,
  chat_template_kwargs: { a: [1] },
};
const response = {
  input: [
    { role: 'user', content: [{ type: 'input_text', text: 'Hello' }] },
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '{"a":"b"}' },
    { type: 'function_call_output', call_id: 'c', output: 'c' },
  ],
  max_output_tokens: 1,
};
const message = {
  model: 'tiny',
  system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
  messages: [
    { role: 'user', content: 'Hello' },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'f knows.', signature: '' },
        { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 'b' } },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'c' }] },
  ],
  max_tokens: 1,
};
const stream = { stream: true, stream_options: { include_usage: true } };

export const FUZZ_ROUTES: readonly FuzzRoute[] = [
  post(
    '/v1/completions',
    completion,
    { prompt: [[5, 6], [7]], max_tokens: 1, ...stream },
    {
      prompt: [5, 6, 7],
      max_tokens: 1,
      prompt_logprobs: 1,
      truncate_prompt_tokens: 2,
      return_token_ids: true,
    },
    { prompt: ['a', 'b'], max_tokens: 1, use_beam_search: true, n: 2 },
    { prompt: 'a', max_tokens: 1, best_of: 2, repetition_detection: { max_pattern_size: 2, min_count: 2 } },
  ),
  post('/v1/chat/completions', chat, { ...chat, ...stream }, { messages: MESSAGES, max_tokens: 1, n: 2 }),
  post(
    '/v1/chat/completions',
    ...HOSTILE_SCHEMAS.map((schema) => ({ ...chat, response_format: schemaFormat(schema) })),
    ...HOSTILE_SCHEMAS.map((schema) => ({ ...chat, structured_outputs: { json: schema } })),
    { ...chat, structured_outputs: { regex: '(a|a)*b' } },
    ...HOSTILE_SCHEMAS.map((parameters) => ({ ...chat, ...callOf(parameters) })),
    {
      messages: CALLS,
      max_tokens: 1,
      tools: [tool(SCHEMA)],
      parallel_tool_calls: false,
      include_reasoning: false,
    },
  ),
  post('/v1/chat/completions', {
    messages: [
      ...MESSAGES,
      { role: 'assistant', tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'run', input: 'a' } }] },
      { role: 'tool', tool_call_id: 'c', content: 'd' },
    ],
    max_tokens: 1,
    tools: [
      {
        type: 'custom',
        custom: { name: 'run', format: { type: 'grammar', grammar: { syntax: 'regex', definition: 'a+' } } },
      },
    ],
    tool_choice: { type: 'custom', custom: { name: 'run' } },
  }),
  post('/v1/chat/completions', {
    messages: CALLS,
    max_tokens: 1,
    functions: [{ name: 'f', parameters: SCHEMA }],
    function_call: { name: 'f' },
  }),
  post(
    '/v1/responses',
    response,
    { ...response, ...stream },
    {
      ...response,
      instructions: 'Be brief.',
      reasoning: { effort: 'low' },
      metadata: { a: 'b' },
      store: false,
    },
    { ...response, tools: [{ type: 'function', name: 'f', parameters: SCHEMA }], tool_choice: 'required' },
    {
      ...response,
      input: [
        { type: 'custom_tool_call', call_id: 'c', name: 'run', input: 'a' },
        { type: 'custom_tool_call_output', call_id: 'c', output: 'd' },
      ],
      tools: [
        { type: 'custom', name: 'run', format: { type: 'grammar', syntax: 'regex', definition: 'a+' } },
      ],
      tool_choice: { type: 'custom', name: 'run' },
    },
    { ...response, previous_response_id: 'resp_1' },
    ...HOSTILE_SCHEMAS.map((schema) => ({
      ...response,
      text: { format: { type: 'json_schema', name: 'x', schema } },
    })),
  ),
  post('/v1/responses/input_tokens', response, { ...response, truncate_prompt_tokens: 2 }),
  post('/v1/responses/resp_1/cancel', {}),
  post(
    '/v1/messages',
    message,
    { ...message, stream: true, thinking: { type: 'enabled', budget_tokens: 9 } },
    { ...message, tools: [{ name: 'f', input_schema: SCHEMA }], tool_choice: { type: 'any' } },
    ...HOSTILE_SCHEMAS.map((schema) => ({
      ...message,
      output_config: { format: { type: 'json_schema', schema } },
    })),
  ),
  post('/v1/messages/count_tokens', message),
  post('/tokenize', { prompt: 'Hello', return_token_strs: true }, { messages: MESSAGES }),
  post('/detokenize', { tokens: [5, 6, 7] }),
  post('/invocations', { messages: MESSAGES, max_tokens: 1 }, { prompt: 'a', max_tokens: 1 }),
  post('/v1/chat/completions/render', chat),
  post('/v1/completions/render', completion),
  post('/v1/embeddings', { input: ['a', 'b'] }),
  post('/score', { text_1: 'a', text_2: ['b'] }),
  post('/rerank', { query: 'a', documents: ['b', { text: 'c' }] }),
  ...['/v1/models', '/v1/models/tiny', '/health', '/version', '/metrics', '/load', '/openapi.json'].map(get),
];

/** Fields of a route's body, as JSON Schema. */
export type FieldSchemas = ReadonlyMap<string, unknown>;

const Document = z.object({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) });
const Properties = z.looseObject({ properties: z.record(z.string(), z.unknown()) });

/** By path, what the document says of the fields of its POST. */
export function fieldsOf(document: unknown): ReadonlyMap<string, FieldSchemas> {
  const { paths } = Document.parse(document);
  return new Map(
    Object.entries(paths).map(([path, { post: operation }]) => [path, new Map(propertiesIn(operation, 8))]),
  );
}

/** Those of the first objects below `value`. */
function propertiesIn(value: unknown, depth: number): [string, unknown][] {
  if (typeof value !== 'object' || value === null || depth === 0) return [];
  const own = Properties.safeParse(value);
  if (own.success) return Object.entries(own.data.properties);
  const { responses: _, ...others } = { responses: null, ...value };
  return Object.values(others).flatMap((inner) => propertiesIn(inner, depth - 1));
}

/** A body for the route: right, nearly right, or no JSON at all. */
export function drawBody({ bodies }: FuzzRoute, fields: FieldSchemas, draw: Draw): Buffer {
  const text = JSON.stringify(bodies[draw(bodies.length)]);
  switch (draw(8)) {
    case 0:
      return Buffer.from(text);
    case 1:
      return mutateBytes(Buffer.from(text), text.length, draw);
    case 2:
      return withBrokenText(text, draw);
    case 3:
      return mutateJson(text, draw);
    default:
      return Buffer.from(JSON.stringify(withDrawnFields(JSON.parse(text), fields, draw)));
  }
}

function withDrawnFields(body: object, fields: FieldSchemas, draw: Draw): object {
  const known = [...fields];
  if (known.length === 0) return body;
  const drawn = Array.from({ length: 1 + draw(3) }, () => {
    const [name, schema] = known[draw(known.length)]!;
    return [name, drawValue(schema, draw, 4)] as const;
  });
  return { ...body, ...Object.fromEntries(drawn) };
}

/** Bytes that are no UTF-8, half characters and escapes, numbers beyond all bounds, and lists in lists. */
function withBrokenText(text: string, draw: Draw): Buffer {
  const at = draw(text.length);
  const [before, after] = [Buffer.from(text.slice(0, at)), Buffer.from(text.slice(at))];
  const pieces: readonly (Buffer | string)[] = [
    Buffer.from([0xff, 0xfe]),
    Buffer.from([0xed, 0xa0, 0x80]),
    Buffer.from([0xf0, 0x9f]),
    Buffer.from([0]),
    '\\ud800',
    '1e999',
    '-0',
    '9'.repeat(400),
    '['.repeat(5000),
    '{"a":'.repeat(500),
    '"',
    '\\u0000',
    '\ufeff',
  ];
  const piece = pieces[draw(pieces.length)]!;
  return Buffer.concat([before, Buffer.from(piece), after]);
}

const Schema = z.looseObject({
  anyOf: z.array(z.unknown()).optional(),
  enum: z.array(z.unknown()).optional(),
  type: z.union([z.string(), z.array(z.string())]).optional(),
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  exclusiveMinimum: z.number().optional(),
  minLength: z.number().optional(),
  maxLength: z.number().optional(),
  items: z.unknown().optional(),
  properties: z.record(z.string(), z.unknown()).optional(),
});

const ANYTHING: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  2 ** 53,
  1e308,
  0.5,
  '',
  'x',
  [],
  {},
  [[]],
  { a: null },
];
const TEXTS = [
  '',
  'a',
  'Hello 🎉',
  '\u0000',
  '\ud800',
  '{{ 1 }}',
  '{% for i in range(9999) %}{{ i }}{% endfor %}',
  '../..',
];
/** Longer texts and lists are one more mutation of bytes, not of fields. */
const MOST_CHARACTERS = 3000;

/** A value that the schema allows, or that is just beyond it. */
function drawValue(given: unknown, draw: Draw, depth: number): unknown {
  const schema = Schema.safeParse(given).data ?? {};
  if (draw(10) === 0 || depth === 0) return ANYTHING[draw(ANYTHING.length)];
  if (schema.anyOf) return drawValue(schema.anyOf[draw(schema.anyOf.length)], draw, depth);
  if (schema.enum) return schema.enum[draw(schema.enum.length)];
  const type = [schema.type].flat()[0];
  switch (type) {
    case 'integer':
    case 'number': {
      const { minimum = -2, maximum = 2 ** 53, exclusiveMinimum = minimum } = schema;
      const edges = [minimum, minimum - 1, maximum, maximum + 1, exclusiveMinimum, 0, 1, 2, 7, 0.5];
      return edges[draw(edges.length)];
    }
    case 'string': {
      const { minLength = 0, maxLength = 64 } = schema;
      const lengths = [minLength, maxLength, maxLength + 1].map((length) =>
        Math.min(length, MOST_CHARACTERS),
      );
      return draw(2) === 0 ? TEXTS[draw(TEXTS.length)] : 'a'.repeat(lengths[draw(lengths.length)]!);
    }
    case 'boolean':
      return draw(2) === 0;
    case 'null':
      return null;
    case 'array':
      return Array.from({ length: draw(4) }, () => drawValue(schema.items, draw, depth - 1));
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? { 5: { type: 'number' }, a: {} })
          .filter(() => draw(4) > 0)
          .map(([name, inner]) => [name, drawValue(inner, draw, depth - 1)]),
      );
    default:
      return ANYTHING[draw(ANYTHING.length)];
  }
}
