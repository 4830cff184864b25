// What a request says of which functions may be called, and whether one must be.

import { InvalidRequestError } from '../errors.ts';
import { preview } from '../util/preview.ts';
import type { AnswerFormats } from './answer-formats.ts';
import type { FunctionTool } from './answer-parts.ts';
import type { ToolFields } from './tool-fields.ts';

export interface ToolChoice {
  readonly mode: 'none' | 'auto' | 'required';
  /** The functions that may be called; null: all. */
  readonly names: readonly string[] | null;
  /** One function was asked for by its name. */
  readonly isNamed: boolean;
}

/** @throws InvalidRequestError for a choice without tools, of an unknown function, or of a model whose calls cannot be read. */
export function readToolChoice(
  given: ToolFields['tool_choice'],
  tools: readonly FunctionTool[],
  { tools: format }: AnswerFormats,
): ToolChoice {
  const choice = choiceOf(given ?? (tools.length > 0 ? 'auto' : 'none'));
  if (choice.mode === 'none') return choice;
  if (tools.length === 0) throw choiceError('is only for requests with tools: give tools, or leave it out');
  const unknown = choice.names?.find((name) => !tools.some((tool) => tool.name === name));
  if (unknown !== undefined) throw choiceError(`names ${preview(unknown)}, which is none of the tools`);
  if (choice.mode === 'auto' && format === null) {
    throw choiceError(
      '"auto" is not served with this model, whose chat template shows no format of calls: use "required" or a ' +
        'function by its name, which are enforced, or start the server with --tool-call-parser',
    );
  }
  return choice;
}

function choiceOf(given: NonNullable<ToolFields['tool_choice']>): ToolChoice {
  if (typeof given === 'string') return { mode: given, names: null, isNamed: false };
  if (given.type === 'function') return { mode: 'required', names: [given.function.name], isNamed: true };
  const { mode, tools } = given.allowed_tools;
  return { mode, names: tools.map((tool) => tool.function.name), isNamed: false };
}

function choiceError(rule: string): InvalidRequestError {
  return new InvalidRequestError(`tool_choice ${rule}`, { param: 'tool_choice' });
}
