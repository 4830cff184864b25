// POST /v1/chat/completions: a conversation through the model's template, answered n times.

import type { FastifyRequest } from 'fastify';
import type { InferenceEngine } from '../../engine/inference-engine.ts';
import { InvalidRequestError } from '../../errors.ts';
import { saltKeys } from '../../kv-cache/prefix-hash.ts';
import { ToolUse } from '../../parsers/tool-use.ts';
import { toChatMessages } from '../../tokenizer/chat-messages.ts';
import type { ChatMessage, ChatTemplate, Tokenizer } from '../../tokenizer/tokenizer.ts';
import { renderPrompt } from '../chat/chat-prompt.ts';
import { ChatWriter } from '../chat/chat-writer.ts';
import { checkCommonFields, type FieldTables } from '../field-checks.ts';
import { parseBody } from '../parse-body.ts';
import type { ParsedRequest } from '../parsed-request.ts';
import {
  type ChatCompletionRequest,
  chatCompletionSchema,
  ignoredChatFields,
  unavailableChatFields,
} from '../protocol/chat-completion.ts';
import { readProxied } from '../proxied-request.ts';
import { notForBeams, type ReadSampling, readSampling, renamed } from '../read-sampling.ts';
import { checkBudget, checkChoices, checkMaxTokens } from '../request-limits.ts';
import { type ResponseOptions, responseOptions } from '../response-options.ts';
import type { ServerContext } from '../server-context.ts';
import type { GenerationEndpoint } from './generation-route.ts';

const TABLES: FieldTables = {
  served: chatCompletionSchema.shape,
  unavailable: unavailableChatFields,
  ignored: ignoredChatFields,
};

export const chatCompletions: GenerationEndpoint = { path: '/v1/chat/completions', parse };

async function parse(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
): Promise<ParsedRequest> {
  const body = parseBody(chatCompletionSchema, request.body);
  const chat = await prepareChat(context, engine, request, body, 'chatcmpl-');
  const { answer, options, role, toolUse } = chat;
  const writer = new ChatWriter(options, {
    role,
    idLength: toolUse.idLength,
    includesReasoning: body.include_reasoning ?? true,
    endsForCalls: !toolUse.isNamed,
  });
  return { ...answer, writer };
}

/** A conversation that is ready to be answered, whatever protocol it came by. */
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
 * @param prefix of the id of the answer: `chatcmpl-`.
 * @throws SvcError where the request must be refused, naming the fields of chat completions.
 */
export async function prepareChat(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
  body: ChatCompletionRequest,
  prefix: string,
): Promise<PreparedChat> {
  checkCommonFields(context, engine, body, TABLES);
  const { params: asked, beamSearch } = samplingOf(body, engine);
  checkChoices(1, asked.n);
  const proxied = readProxied(request, body, 1, asked.n);
  const { text, messages, toolUse } = await renderChat(engine, body);
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
    .prepare({ text }, params, { ...common, ...proxied.prompts[0] })
    .catch(blameFields);
  checkBudget([prompt], requestedTokens(body) ?? 0, engine.info.maxModelLen);
  const role = answeringRole(body, messages);
  const last = messages.at(-1);
  const isEchoed = body.echo && last?.role === role;
  const options = responseOptions(context, engine, request, body, {
    prefix,
    answerId: proxied.answerId,
    prompts: [prompt],
    echoes: [isEchoed ? { text: last.content ?? '', skipsSpecialTokens: true } : null],
    returnTokenIds: body.return_token_ids ?? false,
    isBeamSearch: beamSearch !== null,
  });
  const answer = {
    id: options.head.id,
    prompts: [prompt],
    beamSearch,
    isEchoOnly: false,
    isStream: body.stream ?? false,
    keepsJournal: proxied.keepsJournal,
  };
  return { answer, options, role, toolUse };
}

/** The text of the prompt, and what it was made of. */
export async function renderChat(engine: InferenceEngine, body: ChatCompletionRequest) {
  const { template, tokenizer } = chatParts(engine);
  const toolUse = new ToolUse(body, engine.answerFormats);
  const messages = toChatMessages(body.messages);
  const text = await renderPrompt(template, messages, body, toolUse.templateTools);
  return { text, messages, toolUse, tokenizer };
}

function chatParts({ tokenizer, chatTemplate: template }: InferenceEngine): {
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate;
} {
  if (tokenizer === null) {
    throw new InvalidRequestError(
      'Chat needs a tokenizer, and this server runs without one (--skip-tokenizer-init): send token ids to /v1/completions',
      { param: 'messages' },
    );
  }
  if (template === null) {
    throw new InvalidRequestError(
      'This model has no chat template, so messages cannot be turned into a prompt: send a plain prompt to /v1/completions',
      { param: 'messages' },
    );
  }
  return { tokenizer, template };
}

/** Without a limit the answer may fill the context. */
function samplingOf(body: ChatCompletionRequest, engine: InferenceEngine): ReadSampling {
  const max_tokens = requestedTokens(body);
  const field = body.max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens';
  checkMaxTokens(max_tokens ?? 0, field, engine.info.maxModelLen);
  const numTop = body.top_logprobs ?? 0;
  if (numTop !== 0 && !body.logprobs) {
    throw new InvalidRequestError(
      `top_logprobs needs logprobs to be true, got top_logprobs ${numTop} without it`,
      { param: 'top_logprobs' },
    );
  }
  return readSampling(body, { max_tokens, logprobs: body.logprobs ? numTop : null }, engine);
}

function requestedTokens(body: ChatCompletionRequest): number | null {
  return body.max_completion_tokens ?? body.max_tokens ?? null;
}

/** A chat has no field `prompt`: an error of the prompt is an error of the messages. */
function blameFields(error: unknown): never {
  if (error instanceof InvalidRequestError && error.param === 'prompt') {
    throw new InvalidRequestError(error.message, { param: 'messages', cause: error });
  }
  throw renamed({ logprobs: 'top_logprobs' }, error);
}

/** A message that is gone on with keeps its speaker. */
function answeringRole(body: ChatCompletionRequest, messages: readonly ChatMessage[]): string {
  const isNewMessage = body.add_generation_prompt ?? !body.continue_final_message;
  return isNewMessage ? 'assistant' : (messages.at(-1)?.role ?? 'assistant');
}
