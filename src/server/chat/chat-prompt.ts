// Renders a conversation into the text that the model continues: through its template, and cut at the end of the last
// message where that is to be continued.

import type { InferenceEngine } from '../../engine/inference-engine.ts';
import { InvalidRequestError } from '../../errors.ts';
import { fetchImages } from '../../images/fetch-images.ts';
import { ToolUse } from '../../parsers/tool-use.ts';
import { reservedVariable, toConversation } from '../../tokenizer/chat-messages.ts';
import type { ChatMessage, ChatTemplate, RenderOptions, Tokenizer } from '../../tokenizer/tokenizer.ts';
import type { Client } from '../../util/client.ts';
import type { ChatCompletionRequest } from '../protocol/chat-completion.ts';
import type { ServerContext, ServerOptions } from '../server-context.ts';
import { toolFieldsOf } from './functions.ts';

/** Marks the end of the last message while it is rendered; no real text has these private-use characters. */
const MARK = '\u{F8FF}svc:continue\u{F8FF}';

type PromptFields = Pick<
  ChatCompletionRequest,
  | 'add_generation_prompt'
  | 'continue_final_message'
  | 'chat_template_kwargs'
  | 'reasoning_effort'
  | 'documents'
  | 'chat_template'
>;

/** What the prompt depends on besides the conversation and the fields of its request. */
interface PromptOptions
  extends Pick<ServerOptions, 'trustsRequestTemplates' | 'defaultTemplateVariables'>,
    Pick<Client, 'caller'> {
  /** Functions that the model may call; null or left out: none. */
  readonly tools?: readonly object[] | null;
}

interface ChatPrompt {
  /** The text, and the images that belong to it. */
  readonly prompt: { readonly text: string; readonly images?: readonly Uint8Array[] };
  /** The conversation as templates get it. */
  readonly messages: readonly ChatMessage[];
  readonly toolUse: ToolUse;
  readonly tokenizer: Tokenizer;
}

/**
 * The prompt that a conversation becomes, and what it was made of.
 * @throws InvalidRequestError where it cannot become one, by its own fault, for want of a template or of an image; the reason of an abort.
 */
export async function promptOfChat(
  { options }: ServerContext,
  engine: InferenceEngine,
  body: ChatCompletionRequest,
  { caller, signal }: Client,
): Promise<ChatPrompt> {
  const { template, tokenizer } = chatParts(engine);
  const toolUse = new ToolUse(toolFieldsOf(body), engine.answerFormats);
  const { maxImages, mediaDomains } = engine;
  const { messages, images } = toConversation(body.messages, { maxImages });
  const { templateTools: tools } = toolUse;
  const text = await renderPrompt(template, messages, body, { ...options, tools, caller });
  if (images.length === 0) return { prompt: { text }, messages, toolUse, tokenizer };
  const files = await fetchImages(images, { domains: mediaDomains, signal });
  return { prompt: { text, images: files }, messages, toolUse, tokenizer };
}

/** @throws InvalidRequestError where this server lacks one of them. */
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

/** @throws InvalidRequestError where the template refuses the conversation, or fields contradict each other. */
export async function renderPrompt(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  fields: PromptFields,
  options: PromptOptions = {},
): Promise<string> {
  const given = {
    template: templateOfRequest(fields, options),
    variables: templateVariables(fields, options),
    tools: options.tools ?? null,
    caller: options.caller,
  };
  if (!fields.continue_final_message) {
    return template.render(messages, {
      ...given,
      addGenerationPrompt: fields.add_generation_prompt ?? true,
    });
  }
  if (fields.add_generation_prompt) {
    throw new InvalidRequestError(
      'add_generation_prompt and continue_final_message contradict each other: the one begins a new message, ' +
        'the other goes on with the last',
      { param: 'continue_final_message' },
    );
  }
  return renderOpenEnded(template, messages, given);
}

/** A template is a program: who may run one is for the server to say. */
function templateOfRequest({ chat_template }: PromptFields, options: PromptOptions): string | null {
  if (chat_template == null || options.trustsRequestTemplates) return chat_template ?? null;
  throw new InvalidRequestError(
    'chat_template is taken only by a server that was started with --trust-request-chat-template; ' +
      "chat_template_kwargs sets variables of the model's own template",
    { param: 'chat_template' },
  );
}

/** The prompt up to the end of the last message's text, without the end that the template adds. */
async function renderOpenEnded(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  given: Omit<RenderOptions, 'addGenerationPrompt'>,
): Promise<string> {
  const last = messages.at(-1)!;
  const marked = [...messages.slice(0, -1), { ...last, content: withMark(last.content) }];
  const rendered = await template.render(marked, { ...given, addGenerationPrompt: false });
  const end = rendered.lastIndexOf(MARK);
  if (end < 0) {
    throw new InvalidRequestError('continue_final_message: the chat template leaves the last message out', {
      param: 'continue_final_message',
    });
  }
  // A template may write the message more than once.
  return rendered.slice(0, end).replaceAll(MARK, '');
}

/** Behind the last text: templates write parts in ways of their own. */
function withMark(content: ChatMessage['content']): ChatMessage['content'] {
  if (typeof content === 'string' || content === null) return `${content ?? ''}${MARK}`;
  const last = content.at(-1);
  if (last?.type !== 'text') return [...content, { type: 'text', text: MARK }];
  return [...content.slice(0, -1), { type: 'text', text: `${last.text}${MARK}` }];
}

function templateVariables(fields: PromptFields, options: PromptOptions): Record<string, unknown> {
  const variables: Record<string, unknown> = {
    ...options.defaultTemplateVariables,
    ...fields.chat_template_kwargs,
  };
  const reserved = reservedVariable(variables);
  if (reserved !== null) {
    throw new InvalidRequestError(
      `chat_template_kwargs must not hold ${reserved}: the request has a field for it`,
      { param: 'chat_template_kwargs' },
    );
  }
  if (fields.documents) variables.documents = fields.documents;
  if (typeof fields.reasoning_effort === 'string') variables.reasoning_effort = fields.reasoning_effort;
  return variables;
}
