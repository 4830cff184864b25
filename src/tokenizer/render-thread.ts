// Renders one chat template, one conversation after the other, in a thread that can be ended.

import { parentPort, workerData } from 'node:worker_threads';
import { TemplateError, TemplateRefusal } from './jinja/errors.ts';
import { LimitError } from './jinja/limits.ts';
import { Template } from './jinja/template.ts';
import type { FromRenderThread, RenderProblem, RenderThreadData, Variables } from './render-messages.ts';

const { source }: RenderThreadData = workerData.data;
const template = new Template(source);

function render(variables: Variables): FromRenderThread {
  try {
    return { type: 'text', text: template.render(variables) };
  } catch (error) {
    return { type: 'problem', problem: problemOf(error) };
  }
}

function problemOf(error: unknown): RenderProblem {
  const kind =
    error instanceof TemplateRefusal ? 'refusal' : error instanceof LimitError ? 'limit' : 'failure';
  const message = error instanceof Error ? error.message : String(error);
  const line = error instanceof TemplateError && kind !== 'refusal' ? error.line : null;
  return { kind, reason: line === null ? message : `line ${line}: ${message}` };
}

function send(message: FromRenderThread): void {
  parentPort?.postMessage(message);
}

parentPort?.on('message', (variables: Variables) => send(render(variables)));
send({ type: 'ready' });
