// In which form a chat template takes the content of a message: as one text, or as a list of parts. Templates do not say it,
// so each is tried with both forms.

import type { ContentFormat } from '../config/content-formats.ts';
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

/**
 * @param format other than `auto` is believed.
 * @param render writes a conversation; null where the template refuses it.
 */
export function takenForms(
  format: ContentFormat,
  render: (messages: readonly object[]) => string | null,
): TakenForms {
  if (format !== 'auto') return { text: format === 'string', parts: format === 'openai' };
  const writes = (content: ChatMessage['content']): boolean => {
    const text = render([{ role: 'user', content }]) ?? '';
    return text.includes(PROBE) && !FIELD_OF_PART.test(text);
  };
  const parts = writes([{ type: 'text', text: PROBE }]);
  return { text: !parts || writes(PROBE), parts };
}

/** The content in a form that the template takes; one that it takes already stays as it is. */
export function inTakenForm(content: ChatMessage['content'], takes: TakenForms): ChatMessage['content'] {
  if (content === null) return null;
  if (typeof content === 'string') return takes.text ? content : [{ type: 'text', text: content }];
  return takes.parts ? content : joinedText(content);
}

/** Parts become lines of their own. */
export function joinedText(content: string | readonly TextPart[] | null): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map(({ text }) => text).join('\n');
}
