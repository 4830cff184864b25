// In which form a chat template takes the content of messages: as one text, or as a list of parts. Templates do not say it, and take
// those of one role in another form than those of the next: each is tried with both.

import type { ContentFormat } from '../config/content-formats.ts';
import type { ChatMessage, TextPart } from './tokenizer.ts';

/** The forms that a template writes out. */
export interface TakenForms {
  readonly text: boolean;
  readonly parts: boolean;
}

type Content = ChatMessage['content'];
/** Writes a conversation; null where the template refuses it. */
export type TryTemplate = (messages: readonly object[]) => string | null;

/** No real text has these private-use characters. Two, for some templates write the first part alone. */
const PROBES = ['first', 'second'].map((name) => `\u{F8FF}svc:${name}\u{F8FF}`);
const TEXT = PROBES.join(' ');
const PARTS = PROBES.map((text): TextPart => ({ type: 'text', text }));
/** A list that is written like a text shows the names of its fields. */
const FIELD_OF_PART = /['"]type['"]/;

const QUESTION = { role: 'user', content: 'Hello' };
const CALL = { id: 'probe0000', type: 'function', function: { name: 'probe', arguments: {} } };

/** A short conversation with a message of this role. */
function conversationWith(role: string, content: Content): readonly object[] {
  switch (role) {
    case 'user':
      return [{ role, content }];
    case 'assistant':
      return [QUESTION, { role, content }, QUESTION];
    case 'tool':
      return [
        QUESTION,
        { role: 'assistant', content: '', tool_calls: [CALL] },
        { role, content, name: CALL.function.name, tool_call_id: CALL.id },
      ];
    default:
      return [{ role, content }, QUESTION];
  }
}

/**
 * @param format other than `auto` is believed.
 * @returns null where it writes neither.
 */
export function takenForms(role: string, format: ContentFormat, render: TryTemplate): TakenForms | null {
  const writes = (content: Content): boolean => {
    const written = render(conversationWith(role, content)) ?? '';
    const isList = Array.isArray(content) && FIELD_OF_PART.test(written);
    return PROBES.every((probe) => written.includes(probe)) && !isList;
  };
  const [text, parts] = [format !== 'openai' && writes(TEXT), format !== 'string' && writes(PARTS)];
  return text || parts ? { text, parts } : null;
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
