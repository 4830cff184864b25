// POST /v1/chat/completions: a conversation through the model's template, answered n times.

import type { FastifyRequest } from 'fastify';
import type { InferenceEngine } from '../../engine/inference-engine.ts';
import { InvalidRequestError } from '../../errors.ts';
import { saltKeys } from '../../kv-cache/prefix-hash.ts';
import type { ToolUse } from '../../parsers/tool-use.ts';
import { joinedText } from '../../tokenizer/content-format.ts';
import type { ChatMessage } from '../../tokenizer/tokenizer.ts';
import type { Client } from '../../util/client.ts';
import { promptOfChat } from '../chat/chat-prompt.ts';
import { ChatWriter } from '../chat/chat-writer.ts';
import { checkChatFields } from '../chat/check-fields.ts';
import { blameTools, hasFunctions } from '../chat/functions.ts';
import { parseBody } from '../parse-body.ts';
import type { ParsedRequest } from '../parsed-request.ts';
import {
  type ChatCompletionRequest,
  chatCompletionSchema,
  ignoredChatFields,
} from '../protocol/chat-completion.ts';
import { ignoredFields } from '../protocol/common-fields.ts';
import { readProxied } from '../proxied-request.ts';
import { notForBeams, type ReadSampling, readSampling, renamed } from '../read-sampling.ts';
import { checkBudget, checkMaxTokens } from '../request-limits.ts';
import { type ResponseOptions, responseOptions } from '../response-options.ts';
import type { ServerContext } from '../server-context.ts';
import type { GenerationEndpoint } from './generation-route.ts';

/** The one that all requests are served in, whichever they ask for. */
const SERVICE_TIER = 'default';

export const chatCompletions: GenerationEndpoint = {
  path: '/v1/chat/completions',
  about: {
    summary: 'Answers a conversation',
    body: chatCompletionSchema,
    ignored: [...ignoredFields, ...ignoredChatFields],
    streams: true,
  },
  parse,
};

async function parse(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
  client: Client,
): Promise<ParsedRequest> {
  const body = parseBody(chatCompletionSchema, request.body);
  const lengthField = body.max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens';
  const asked = { body, prefix: 'chatcmpl-', lengthField, client };
  const chat = await prepareChat(context, engine, request, asked).catch(blameTools(body));
  const { answer, options, role, toolUse } = chat;
  const writer = new ChatWriter(options, {
    role,
    metadata: body.metadata ?? null,
    idLength: toolUse.idLength,
    includesReasoning: body.include_reasoning ?? true,
    endsForCalls: !toolUse.isNamed,
    callField: hasFunctions(body) ? 'function_call' : 'tool_calls',
  });
  return { ...answer, writer };
}

/** A request for a chat, whatever protocol it came by. */
export interface AskedChat {
  readonly body: ChatCompletionRequest;
  /** Of the id of the answer: `chatcmpl-`. */
  readonly prefix: string;
  /** Where the client says how long the answer may be. */
  readonly lengthField: string;
  /** Ends the preparation. */
  readonly client: Client;
}

/** A conversation that is ready to be answered. */
export interface PreparedChat {
  /** All but the writer. */
  readonly answer: Omit<ParsedRequest, 'writer'>;
  readonly options: ResponseOptions;
  /** Speaks the answer. */
  readonly role: string;
  readonly toolUse: ToolUse;
}

/**
 * Checks a request for a chat and makes its prompt.
 * @throws SvcError where the request must be refused, naming the fields of chat completions; the reason of an abort.
 */
export async function prepareChat(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
  { body, prefix, lengthField, client }: AskedChat,
): Promise<PreparedChat> {
  checkChatFields(context, engine, body);
  const max_tokens = body.max_completion_tokens ?? body.max_tokens ?? null;
  const requested = { field: lengthField, count: max_tokens ?? 0 };
  checkMaxTokens(requested, engine.info.maxModelLen);
  const { params: asked, beamSearch } = samplingOf(body, max_tokens, engine);
  const proxied = readProxied(request, body, 1, asked.n);
  const { prompt: given, messages, toolUse } = await promptOfChat(context, engine, body, client);
  const { text } = given;
  const params = { ...asked, constraint: toolUse.constraint(asked.constraint, text) };
  if (beamSearch !== null && params.constraint !== null) throw notForBeams(params.constraint.field);
  const common = {
    answer: toolUse.reader(text),
    adapter: context.adapterOf(body.model, engine),
    extraKeys: saltKeys(body.cache_salt ?? null),
    priority: body.priority ?? 0,
    addSpecialTokens: body.add_special_tokens ?? false,
  };
  const prompt = await engine
    .prepare(given, params, { ...common, ...proxied.prompts[0], ...client })
    .catch(blameFields);
  checkBudget([prompt], requested, engine.info.maxModelLen);
  const role = answeringRole(body, messages, context);
  const last = messages.at(-1);
  const isEchoed = body.echo && last?.role === role;
  const options = responseOptions(context, engine, request, body, {
    prefix,
    answerId: proxied.answerId,
    prompts: [prompt],
    echoes: [isEchoed ? { text: joinedText(last.content), skipsSpecialTokens: true } : null],
    returnTokenIds: body.return_token_ids ?? false,
    isBeamSearch: beamSearch !== null,
    serviceTier: body.service_tier == null ? null : SERVICE_TIER,
  });
  const answer = {
    id: options.head.id,
    prompts: [prompt],
    beamSearch,
    isEchoOnly: false,
    isStream: body.stream ?? false,
    keepsJournal: proxied.keepsJournal,
    bestOf: null,
    streamInterval: body.stream_interval ?? context.options.streamInterval ?? 1,
  };
  return { answer, options, role, toolUse };
}

/** @param max_tokens null: the answer may fill the context. */
function samplingOf(
  body: ChatCompletionRequest,
  max_tokens: number | null,
  engine: InferenceEngine,
): ReadSampling {
  const numTop = body.top_logprobs ?? 0;
  if (numTop !== 0 && !body.logprobs) {
    throw new InvalidRequestError(
      `top_logprobs needs logprobs to be true, got top_logprobs ${numTop} without it`,
      { param: 'top_logprobs' },
    );
  }
  return readSampling(body, { max_tokens, logprobs: body.logprobs ? numTop : null }, engine);
}

/** A chat has no field `prompt`: an error of the prompt is an error of the messages. */
function blameFields(error: unknown): never {
  if (error instanceof InvalidRequestError && error.param === 'prompt') {
    throw new InvalidRequestError(error.message, { param: 'messages', cause: error });
  }
  throw renamed({ logprobs: 'top_logprobs' }, error);
}

/** A message that is gone on with keeps its speaker. */
function answeringRole(
  body: ChatCompletionRequest,
  messages: readonly ChatMessage[],
  { options: { responseRole = 'assistant' } }: ServerContext,
): string {
  const isNewMessage = body.add_generation_prompt ?? !body.continue_final_message;
  return isNewMessage ? responseRole : (messages.at(-1)?.role ?? responseRole);
}
