// Entry of the thread that renders chat templates, one conversation after the other.

import { workerData } from 'node:worker_threads';
import { InvalidRequestError, messageOf } from '../errors.ts';
import { type Result, serveCalls } from '../util/call-thread.ts';
import { TemplateError, TemplateRefusal, TemplateSyntaxError } from './jinja/errors.ts';
import { LimitError } from './jinja/limits.ts';
import { Template } from './jinja/template.ts';
import { inMessageForm, type MessageForm, messageForm } from './message-form.ts';
import { problemError, type RenderOrder, type RenderThreadData } from './render-queue.ts';

/** Templates of requests that are kept compiled. */
const MAX_KEPT = 16;

interface Compiled {
  readonly template: Template;
  readonly form: MessageForm;
}

const data: RenderThreadData = workerData.data;
/** By source, the one that was used last at the end. */
const kept = new Map<string, Compiled>();

serveCalls(({ messages, variables, source }: RenderOrder): Result<string> => {
  const { template, form } = compiled(source ?? data.source);
  try {
    const written = messages.map((message, index) => inMessageForm(message, index, form, data.imageLine));
    return { value: template.render({ ...data.specialTokens, ...variables, messages: written }) };
  } catch (error) {
    if (error instanceof InvalidRequestError) throw error;
    if (error instanceof TemplateRefusal) throw problemError('refusal', error.message);
    const message = messageOf(error);
    const line = error instanceof TemplateError ? error.line : null;
    const reason = line === null ? message : `line ${line}: ${message}`;
    throw problemError(error instanceof LimitError ? 'limit' : 'failure', reason);
  }
});

function compiled(source: string): Compiled {
  const found = kept.get(source) ?? compile(source);
  kept.delete(source);
  kept.set(source, found);
  const [oldest] = kept.keys();
  if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
  return found;
}

function compile(source: string): Compiled {
  try {
    const template = new Template(source);
    return { template, form: messageForm(template, source, data.specialTokens, data.contentFormat) };
  } catch (error) {
    if (!(error instanceof TemplateSyntaxError)) throw error;
    throw new InvalidRequestError(`chat_template does not compile: line ${error.line}: ${error.message}`, {
      param: 'chat_template',
    });
  }
}
