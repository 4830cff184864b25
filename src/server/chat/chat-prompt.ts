// Renders a conversation into the text that the model continues: through its template, and cut at the end of the last
// message where that is to be continued.

import { InvalidRequestError } from '../../errors.ts';
import { reservedVariable } from '../../tokenizer/chat-messages.ts';
import type { ChatMessage, ChatTemplate, RenderOptions } from '../../tokenizer/tokenizer.ts';
import type { ChatCompletionRequest } from '../protocol/chat-completion.ts';

/** Marks the end of the last message while it is rendered; no real text has these private-use characters. */
const MARK = '\u{F8FF}svc:continue\u{F8FF}';

type PromptFields = Pick<
  ChatCompletionRequest,
  'add_generation_prompt' | 'continue_final_message' | 'chat_template_kwargs' | 'reasoning_effort'
>;

/** @throws InvalidRequestError where the template refuses the conversation, or fields contradict each other. */
export async function renderPrompt(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  fields: PromptFields,
  tools: readonly object[] | null = null,
): Promise<string> {
  const variables = templateVariables(fields);
  if (!fields.continue_final_message) {
    return template.render(messages, {
      addGenerationPrompt: fields.add_generation_prompt ?? true,
      tools,
      variables,
    });
  }
  if (fields.add_generation_prompt) {
    throw new InvalidRequestError(
      'add_generation_prompt and continue_final_message contradict each other: the one begins a new message, ' +
        'the other goes on with the last',
      { param: 'continue_final_message' },
    );
  }
  return renderOpenEnded(template, messages, { tools, variables });
}

/** The prompt up to the end of the last message's text, without the end that the template adds. */
async function renderOpenEnded(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  options: Pick<RenderOptions, 'tools' | 'variables'>,
): Promise<string> {
  const last = messages.at(-1)!;
  const marked = [...messages.slice(0, -1), { ...last, content: `${last.content ?? ''}${MARK}` }];
  const rendered = await template.render(marked, { ...options, addGenerationPrompt: false });
  const end = rendered.lastIndexOf(MARK);
  if (end < 0) {
    throw new InvalidRequestError('continue_final_message: the chat template leaves the last message out', {
      param: 'continue_final_message',
    });
  }
  return rendered.slice(0, end);
}

function templateVariables(fields: PromptFields): Record<string, unknown> {
  const variables: Record<string, unknown> = { ...fields.chat_template_kwargs };
  const reserved = reservedVariable(variables);
  if (reserved !== null) {
    throw new InvalidRequestError(
      `chat_template_kwargs must not hold ${reserved}: the request has a field for it`,
      { param: 'chat_template_kwargs' },
    );
  }
  if (typeof fields.reasoning_effort === 'string') variables.reasoning_effort = fields.reasoning_effort;
  return variables;
}
