// Entry of the thread that renders one chat template, one conversation after the other.

import { workerData } from 'node:worker_threads';
import { messageOf } from '../errors.ts';
import { type Result, serveCalls } from '../util/call-thread.ts';
import { TemplateError, TemplateRefusal } from './jinja/errors.ts';
import { LimitError } from './jinja/limits.ts';
import { Template } from './jinja/template.ts';
import { problemError, type RenderThreadData, type Variables } from './render-queue.ts';

const { source }: RenderThreadData = workerData.data;
const template = new Template(source);

serveCalls((variables: Variables): Result<string> => {
  try {
    return { value: template.render(variables) };
  } catch (error) {
    if (error instanceof TemplateRefusal) throw problemError('refusal', error.message);
    const message = messageOf(error);
    const line = error instanceof TemplateError ? error.line : null;
    const reason = line === null ? message : `line ${line}: ${message}`;
    throw problemError(error instanceof LimitError ? 'limit' : 'failure', reason);
  }
});
