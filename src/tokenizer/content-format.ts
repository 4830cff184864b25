// In which form a chat template takes the content of messages: as one text, or as a list of parts. Templates do not say it, and take
// those of one role in another form than those of the next: each is tried with both.

import type { ContentFormat } from '../config/content-formats.ts';
import type { ChatMessage, ContentPart, TextPart } from './tokenizer.ts';

/** The forms that a template writes out. */
export interface TakenForms {
  readonly text: boolean;
  readonly parts: boolean;
  /** Among the parts. */
  readonly images: boolean;
}

type Content = ChatMessage['content'];
/** Writes a conversation; null where the template refuses it. */
export type TryTemplate = (messages: readonly object[]) => string | null;

/** No real text has these private-use characters. Two, for some templates write the first part alone. */
const PROBES = ['first', 'second'].map((name) => `\u{F8FF}svc:${name}\u{F8FF}`);
const TEXT = PROBES.join(' ');
const PARTS = PROBES.map((text): TextPart => ({ type: 'text', text }));
const IMAGE_BETWEEN: readonly ContentPart[] = PARTS.flatMap((part, index) =>
  index === 0 ? [part] : [{ type: 'image' }, part],
);
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
  const written = (content: Content): string | null => {
    const prompt = render(conversationWith(role, content)) ?? '';
    const isList = Array.isArray(content) && FIELD_OF_PART.test(prompt);
    return PROBES.every((probe) => prompt.includes(probe)) && !isList ? prompt : null;
  };
  const text = format === 'openai' ? null : written(TEXT);
  const parts = format === 'string' ? null : written(PARTS);
  if (text === null && parts === null) return null;
  const withImage = parts === null ? null : written(IMAGE_BETWEEN);
  // One that knows no images leaves them out.
  return { text: text !== null, parts: parts !== null, images: withImage !== null && withImage !== parts };
}

/** The content in a form that the template takes; one that it takes already stays as it is. */
export function inTakenForm(content: ChatMessage['content'], takes: TakenForms): ChatMessage['content'] {
  if (content === null) return null;
  if (typeof content === 'string') return takes.text ? content : [{ type: 'text', text: content }];
  return takes.parts ? content : joinedText(content);
}

/** Texts become lines of their own; images are left out. */
export function joinedText(content: ChatMessage['content']): string {
  if (typeof content === 'string') return content;
  return (content ?? []).flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

export function withImagesAsTexts(content: ChatMessage['content'], text: string): ChatMessage['content'] {
  if (typeof content !== 'object' || content === null) return content;
  return content.map((part) => (part.type === 'image' ? { type: 'text', text } : part));
}

export function holdsImage(content: ChatMessage['content']): boolean {
  return typeof content === 'object' && (content?.some(({ type }) => type === 'image') ?? false);
}
