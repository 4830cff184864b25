// In which words and shapes one chat template takes messages. Templates do not say it, so each is tried.

import type { ContentFormat } from '../config/content-formats.ts';
import { InvalidRequestError } from '../errors.ts';
import { preview } from '../util/preview.ts';
import { type CallForm, callForm, inCallForm } from './call-form.ts';
import {
  holdsImage,
  inTakenForm,
  joinedText,
  type TakenForms,
  type TryTemplate,
  takenForms,
  withImagesAsTexts,
} from './content-format.ts';
import type { Template } from './jinja/template.ts';
import type { ChatMessage } from './tokenizer.ts';

export interface MessageForm {
  /** By role. */
  readonly contents: ReadonlyMap<string, TakenForms>;
  /** Of all other roles. */
  readonly content: TakenForms;
  readonly calls: CallForm;
}

/** Besides users. */
const ROLES = ['system', 'assistant', 'tool'];
/** The role that is `system` for templates which do not know it. */
const DEVELOPER = 'developer';

/** @param source of `template`. */
export function messageForm(
  template: Template,
  source: string,
  specialTokens: Readonly<Record<string, string>>,
  contentFormat: ContentFormat,
): MessageForm {
  const render: TryTemplate = (messages) => {
    try {
      return template.render({ ...specialTokens, messages, add_generation_prompt: true });
    } catch {
      // A template may refuse what it is tried with, or fail on the form that it does not know.
      return null;
    }
  };
  const isParts = contentFormat === 'openai';
  const plain = { text: !isParts, parts: isParts, images: isParts };
  const content = takenForms('user', contentFormat, render) ?? plain;
  // Where a template cannot be tried with a role, a text is written by more templates than a list is.
  const untried = content.text ? plain : content;
  const contents = new Map(
    ROLES.map((role) => [role, takenForms(role, contentFormat, render) ?? untried] as const),
  );
  // One that writes whatever role there is does not know it.
  const ofDevelopers = source.includes(DEVELOPER) ? takenForms(DEVELOPER, contentFormat, render) : null;
  if (ofDevelopers !== null) contents.set(DEVELOPER, ofDevelopers);
  return { contents, content, calls: callForm(render) };
}

/**
 * @param index of the message, for errors.
 * @param imageLine what stands for an image in a text; null where nothing does
 * @throws InvalidRequestError for an image where the template writes none, and nothing stands for it.
 */
export function inMessageForm(
  message: ChatMessage,
  index: number,
  form: MessageForm,
  imageLine: string | null,
): object {
  const { content: given, tool_calls } = message;
  const role = message.role === DEVELOPER && !form.contents.has(DEVELOPER) ? 'system' : message.role;
  const takes = form.contents.get(role) ?? form.content;
  const hasImage = holdsImage(given);
  const isLine = hasImage && !takes.images;
  if (isLine && imageLine === null) throw writesNoImages(index, role);
  const content = isLine ? withImagesAsTexts(given, imageLine!) : given;
  const written = inTakenForm(content, takes);
  if (tool_calls === undefined) return { ...message, role, content: written };
  const isLeftOut = form.calls.isWithoutContent && joinedText(content) === '' && !hasImage;
  return {
    ...message,
    role,
    content: isLeftOut ? null : written,
    tool_calls: inCallForm(tool_calls, form.calls),
  };
}

function writesNoImages(index: number, role: string): InvalidRequestError {
  return new InvalidRequestError(
    `messages[${index}] has an image, and the chat template writes none in messages of the role ${preview(role)}: put it into a ` +
      'message of another role, or give a template that writes it (--chat-template)',
    { param: 'messages' },
  );
}
