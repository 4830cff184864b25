// In which form a chat template takes the content of a message: as one text, or as a list of parts. Templates do not say it,
// so each is tried with both forms.

import type { ContentFormat } from '../config/content-formats.ts';
import type { Template } from './jinja/template.ts';
import type { ChatMessage, TextPart } from './tokenizer.ts';

/** The forms that a template writes out. */
export interface TakenForms {
  readonly text: boolean;
  readonly parts: boolean;
}

/** No real text has these private-use characters. */
const PROBE = '\u{F8FF}svc:content\u{F8FF}';
/** A list that is written like a text shows the names of its fields. */
const FIELD_OF_PART = /['"]type['"]/;

/** @param format other than `auto` is believed. */
export function takenForms(
  template: Template,
  specialTokens: Readonly<Record<string, string>>,
  format: ContentFormat,
): TakenForms {
  if (format !== 'auto') return { text: format === 'string', parts: format === 'openai' };
  const writes = (content: ChatMessage['content']): boolean => {
    const messages = [{ role: 'user', content }];
    try {
      const text = template.render({ ...specialTokens, messages, add_generation_prompt: true });
      return text.includes(PROBE) && !FIELD_OF_PART.test(text);
    } catch {
      // A template may refuse the probe, or fail on the form that it does not know.
      return false;
    }
  };
  const parts = writes([{ type: 'text', text: PROBE }]);
  return { text: !parts || writes(PROBE), parts };
}

/** The message in a form that the template takes; one that it takes already stays as it is. */
export function inTakenForm(message: ChatMessage, takes: TakenForms): ChatMessage {
  const { content } = message;
  if (content === null) return message;
  if (typeof content === 'string') {
    return takes.text ? message : { ...message, content: [{ type: 'text', text: content }] };
  }
  return takes.parts ? message : { ...message, content: joinedText(content) };
}

/** Parts become lines of their own. */
export function joinedText(content: string | readonly TextPart[] | null): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map(({ text }) => text).join('\n');
}
