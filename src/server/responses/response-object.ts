// The resource that POST /v1/responses makes: what was asked for, what came of it, what it cost.

import type { SamplingParams } from '../../sampling/sampling-params.ts';
import { inDoubles } from '../../util/exact-json.ts';
import type { CreateResponseRequest, Tool } from '../protocol/responses.ts';
import type { OutputItem } from './items.ts';

/** The fields that are known before anything is made. */
export type ResponseFields = ReturnType<typeof responseFields>;

export interface ResponseObject extends ResponseFields {
  readonly status: 'in_progress' | 'completed' | 'incomplete' | 'failed';
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly incomplete_details: { readonly reason: 'max_output_tokens' } | null;
  /** A list, or an iterable that is written as one. */
  readonly output: readonly OutputItem[];
  readonly usage?: ResponseUsage;
}

export type ResponseUsage = ReturnType<typeof responseUsage>;

export function responseFields(
  { id, created, model }: { readonly id: string; readonly created: number; readonly model: string },
  body: CreateResponseRequest,
  params: Pick<SamplingParams, 'temperature' | 'top_p'>,
) {
  return {
    id,
    object: 'response',
    created_at: created,
    background: false,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: null,
    metadata: body.metadata ?? {},
    model,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort: body.reasoning?.effort ?? null, summary: body.reasoning?.summary ?? null },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: 'default',
    store: body.store ?? true,
    // Greedy sampling knows no top_p: what was asked for is told.
    temperature: body.temperature ?? params.temperature,
    text: { format: body.text?.format ?? { type: 'text' } },
    tool_choice: body.tool_choice ?? 'auto',
    tools: inDoubles(body.tools ?? []).map(repeatedTool),
    top_logprobs: body.top_logprobs ?? 0,
    top_p: body.top_p ?? params.top_p,
    truncation: 'disabled',
    ...(body.user != null && { user: body.user }),
  };
}

/** With the defaults of what the request left out. */
function repeatedTool(tool: Tool) {
  if (tool.type === 'custom') {
    const { description, format, ...others } = tool;
    return { ...others, ...(description != null && { description }), format: format ?? { type: 'text' } };
  }
  const { description, parameters, strict } = tool;
  return {
    ...tool,
    description: description ?? null,
    parameters: parameters ?? null,
    strict: strict ?? null,
  };
}

/** @param reasoningTokens those of the output that are no part of what is said. */
export function responseUsage(
  inputTokens: number,
  cachedTokens: number,
  outputTokens: number,
  reasoningTokens: number,
) {
  return {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: inputTokens + outputTokens,
  };
}
