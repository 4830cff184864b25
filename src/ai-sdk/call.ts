// A call of the `ai` SDK becomes a chat: messages, sampling fields and options of `LLM.streamChat`.

import type {
  LanguageModelV3CallOptions,
  LanguageModelV3FilePart,
  LanguageModelV3Message,
  LanguageModelV3ToolResultOutput,
  SharedV3Warning,
} from '@ai-sdk/provider';
import * as z from 'zod';
import { InvalidRequestError } from '../errors.ts';
import type { StreamChatOptions, ToolInput } from '../llm/call-options.ts';
import type { ChatMessageInput, ContentPart } from '../llm/conversations.ts';
import type { SamplingInput } from '../sampling/sampling-fields.ts';
import { zodMessage } from '../util/zod-message.ts';

interface Call {
  readonly messages: readonly ChatMessageInput[];
  readonly sampling: SamplingInput;
  readonly chat: StreamChatOptions;
  readonly warnings: SharedV3Warning[];
}

type ToolChoice = NonNullable<StreamChatOptions['toolChoice']>;
type Content<R extends LanguageModelV3Message['role']> = Extract<
  LanguageModelV3Message,
  { role: R }
>['content'];

const ownOptions = z.looseObject({ chatTemplateKwargs: z.record(z.string(), z.unknown()).optional() });

/** @throws InvalidRequestError for what no model here reads. */
export function readCall(options: LanguageModelV3CallOptions): Call {
  const { chatTemplateKwargs, ...ownSampling } = readOwnOptions(options.providerOptions?.svc ?? {});
  const { tools, warnings } = readTools(options.tools ?? []);
  const sampling = {
    // All that fits.
    max_tokens: options.maxOutputTokens ?? null,
    temperature: options.temperature,
    top_p: options.topP,
    top_k: options.topK,
    presence_penalty: options.presencePenalty,
    frequency_penalty: options.frequencyPenalty,
    stop: options.stopSequences,
    seed: options.seed,
    structured_outputs: structuredOutputs(options.responseFormat),
    ...ownSampling,
  };
  const chat = {
    signal: options.abortSignal,
    chatTemplateKwargs,
    ...(tools.length > 0 && { tools, toolChoice: toolChoice(options.toolChoice) }),
  };
  return { messages: options.prompt.flatMap(toMessages), sampling, chat, warnings };
}

function readOwnOptions(given: object): z.output<typeof ownOptions> {
  const parsed = ownOptions.safeParse(given);
  if (parsed.success) return parsed.data;
  const message = zodMessage(parsed.error, given, 'providerOptions.svc');
  throw new InvalidRequestError(message, { param: 'providerOptions' });
}

function readTools(given: NonNullable<LanguageModelV3CallOptions['tools']>) {
  const tools: ToolInput[] = [];
  const warnings: SharedV3Warning[] = [];
  for (const tool of given) {
    if (tool.type === 'provider') {
      warnings.push({
        type: 'unsupported',
        feature: `the tool ${tool.id}`,
        details: 'svc has no tools of its own',
      });
      continue;
    }
    const { name, description, inputSchema, strict } = tool;
    tools.push({ type: 'function', function: { name, description, strict, parameters: { ...inputSchema } } });
  }
  return { tools, warnings };
}

function toolChoice(choice: LanguageModelV3CallOptions['toolChoice']): ToolChoice {
  if (choice === undefined) return 'auto';
  return choice.type === 'tool' ? { type: 'function', function: { name: choice.toolName } } : choice.type;
}

function structuredOutputs(format: LanguageModelV3CallOptions['responseFormat']) {
  if (format?.type !== 'json') return undefined;
  // Nobody reads it but the SDK.
  const disable_any_whitespace = true;
  return format.schema === undefined
    ? { json_object: true, disable_any_whitespace }
    : { json: format.schema, disable_any_whitespace };
}

function toMessages(message: LanguageModelV3Message): ChatMessageInput[] {
  switch (message.role) {
    case 'system':
      return [{ role: 'system', content: message.content }];
    case 'user':
      return [{ role: 'user', content: message.content.map(userPart) }];
    case 'assistant':
      return [assistantMessage(message.content)];
    case 'tool':
      return message.content.flatMap((part) =>
        part.type === 'tool-result'
          ? [{ role: 'tool', tool_call_id: part.toolCallId, content: resultText(part.output) }]
          : [],
      );
  }
}

function userPart(part: Content<'user'>[number]): ContentPart {
  if (part.type === 'text') return { type: 'text', text: part.text };
  return part.mediaType.startsWith('image/')
    ? { type: 'image_url', image_url: { url: imageUrl(part) } }
    : refuse(part.mediaType);
}

/** What the image really is, its own bytes say. */
function imageUrl({ data, mediaType }: LanguageModelV3FilePart): string {
  if (data instanceof URL) return data.href;
  const encoded = typeof data === 'string' ? data : Buffer.from(data).toString('base64');
  return `data:${mediaType.replace('*', 'unknown')};base64,${encoded}`;
}

function assistantMessage(parts: Content<'assistant'>): ChatMessageInput {
  const texts = { text: '', reasoning: '' };
  const tool_calls: NonNullable<ChatMessageInput['tool_calls']>[number][] = [];
  for (const part of parts) {
    if (part.type === 'text' || part.type === 'reasoning') texts[part.type] += part.text;
    else if (part.type === 'tool-call') {
      const called = { name: part.toolName, arguments: JSON.stringify(part.input) };
      tool_calls.push({ id: part.toolCallId, type: 'function', function: called });
    } else refuse(part.type === 'file' ? part.mediaType : 'results of tools that a provider ran');
  }
  const reasoning = texts.reasoning === '' ? null : texts.reasoning;
  return { role: 'assistant', content: texts.text, reasoning, tool_calls };
}

function resultText(output: LanguageModelV3ToolResultOutput): string {
  switch (output.type) {
    case 'text':
    case 'error-text':
      return output.value;
    case 'json':
    case 'error-json':
      return JSON.stringify(output.value);
    case 'execution-denied':
      return output.reason ?? 'The call was not allowed.';
    case 'content':
      return output.value.map((part) => (part.type === 'text' ? part.text : refuse(part.type))).join('\n');
  }
}

function refuse(what: string): never {
  throw new InvalidRequestError(`messages must be texts, and images of users: this model reads no ${what}`, {
    param: 'messages',
  });
}
