// In which words and shapes one chat template takes messages. Templates do not say it, so each is tried.

import type { ContentFormat } from '../config/content-formats.ts';
import { type ArgumentsForm, argumentsForm, inArgumentsForm } from './arguments-form.ts';
import { inTakenForm, type TakenForms, takenForms } from './content-format.ts';
import type { Template } from './jinja/template.ts';
import type { ChatMessage } from './tokenizer.ts';

export interface MessageForm {
  readonly content: TakenForms;
  readonly callArguments: ArgumentsForm;
  /** Knows the role `developer`, which others get as `system`. */
  readonly knowsDevelopers: boolean;
}

/** @param source of `template`. */
export function messageForm(
  template: Template,
  source: string,
  specialTokens: Readonly<Record<string, string>>,
  contentFormat: ContentFormat,
): MessageForm {
  const render = (messages: readonly object[]): string | null => {
    try {
      return template.render({ ...specialTokens, messages, add_generation_prompt: true });
    } catch {
      // A template may refuse what it is tried with, or fail on the form that it does not know.
      return null;
    }
  };
  return {
    content: takenForms(contentFormat, render),
    callArguments: argumentsForm(render),
    knowsDevelopers: source.includes('developer'),
  };
}

export function inMessageForm(message: ChatMessage, form: MessageForm): object {
  const { role, content, tool_calls } = message;
  return {
    ...message,
    role: role === 'developer' && !form.knowsDevelopers ? 'system' : role,
    content: inTakenForm(content, form.content),
    ...(tool_calls !== undefined && { tool_calls: inArgumentsForm(tool_calls, form.callArguments) }),
  };
}
