// Makes the bodies of requests: only what the user set is in them. Where the model is not known yet, it is left out, and
// the server's own is meant.

import type { Message } from './message.ts';
import type { Settings } from './settings.ts';

export interface GenerationRequest {
  readonly path: 'v1/chat/completions' | 'v1/completions';
  readonly body: Readonly<Record<string, unknown>>;
}

const NUM_ALTERNATIVES = 5;

/** @throws SyntaxError naming the field whose JSON cannot be read. */
export function chatRequest(
  model: string | null,
  settings: Settings,
  messages: readonly Message[],
): GenerationRequest {
  const { tools, toolChoice, schema, showsProbabilities } = settings;
  const body = {
    ...(model !== null && { model }),
    messages: messages.map(onTheWire),
    ...common(settings),
    ...(showsProbabilities && { logprobs: true, top_logprobs: NUM_ALTERNATIVES }),
    ...(tools.trim() !== '' && { tools: parsed('Tools', tools) }),
    ...(tools.trim() !== '' && toolChoice !== '' && { tool_choice: toolChoice }),
    ...(schema.trim() !== '' && { response_format: jsonSchema(parsed('JSON Schema', schema)) }),
  };
  return { path: 'v1/chat/completions', body };
}

/** @throws SyntaxError naming the field whose JSON cannot be read. */
export function completionRequest(
  model: string | null,
  settings: Settings,
  prompt: string,
): GenerationRequest {
  const { schema, showsProbabilities } = settings;
  const body = {
    ...(model !== null && { model }),
    prompt,
    ...common(settings),
    ...(showsProbabilities && { logprobs: NUM_ALTERNATIVES }),
    ...(schema.trim() !== '' && { response_format: jsonSchema(parsed('JSON Schema', schema)) }),
  };
  return { path: 'v1/completions', body };
}

function common({ numbers, stop, isStream }: Settings): object {
  const set = Object.entries(numbers).filter(([, text]) => text !== '');
  const stops = stop.split('\n').filter((line) => line !== '');
  return {
    ...Object.fromEntries(set.map(([name, text]) => [name, Number(text)])),
    ...(stops.length > 0 && { stop: stops }),
    ...(isStream && { stream: true, stream_options: { include_usage: true } }),
  };
}

function onTheWire({ role, content, images, toolCalls, toolCallId }: Message): object {
  const shown = images.map((url) => ({ type: 'image_url', image_url: { url } }));
  return {
    role,
    content: shown.length === 0 ? content : [...shown, { type: 'text', text: content }],
    ...(toolCallId !== null && { tool_call_id: toolCallId }),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map(({ id, type, name, input }) => ({
        id,
        type,
        ...(type === 'custom' ? { custom: { name, input } } : { function: { name, arguments: input } }),
      })),
    }),
  };
}

function jsonSchema(schema: unknown): object {
  return { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } };
}

function parsed(field: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(`${field} is not JSON: ${error instanceof Error ? error.message : error}`);
  }
}
