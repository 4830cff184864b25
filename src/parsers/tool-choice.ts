// What a request says of which tools may be called, and whether one must be.

import { InvalidRequestError } from '../errors.ts';
import { preview } from '../util/preview.ts';
import type { AnswerFormats } from './answer-formats.ts';
import type { NamedTool, ToolFields } from './tool-fields.ts';

export interface ToolChoice {
  readonly mode: 'none' | 'auto' | 'required';
  /** The tools that may be called; null: all. */
  readonly names: readonly string[] | null;
  /** One tool was asked for by its name. */
  readonly isNamed: boolean;
}

/** A tool as a choice names it. */
export interface ToolName {
  readonly type: 'function' | 'custom';
  readonly name: string;
}

/** @throws InvalidRequestError for a choice without tools, of an unknown tool, or of a model whose calls cannot be read. */
export function readToolChoice(
  given: ToolFields['tool_choice'],
  tools: readonly ToolName[],
  { tools: format }: AnswerFormats,
): ToolChoice {
  const { named, ...asked } = choiceOf(given ?? (tools.length > 0 ? 'auto' : 'none'));
  const choice = { ...asked, names: named?.map(({ name }) => name) ?? null };
  if (choice.mode === 'none') return choice;
  if (tools.length === 0) throw choiceError('is only for requests with tools: give tools, or leave it out');
  const unknown = named?.find(
    ({ type, name }) => !tools.some((one) => one.type === type && one.name === name),
  );
  if (unknown !== undefined) {
    throw choiceError(
      `names the ${KINDS[unknown.type]} ${preview(unknown.name)}, which is none of the tools`,
    );
  }
  if (choice.mode === 'auto' && format === null) {
    throw choiceError(
      '"auto" is not served with this model, whose chat template shows no format of calls: use "required" or a ' +
        'function by its name, which are enforced, or start the server with --tool-call-parser',
    );
  }
  return choice;
}

const KINDS = { function: 'function', custom: 'custom tool' } as const;

interface GivenChoice extends Omit<ToolChoice, 'names'> {
  readonly named: readonly ToolName[] | null;
}

function choiceOf(given: NonNullable<ToolFields['tool_choice']>): GivenChoice {
  if (typeof given === 'string') return { mode: given, named: null, isNamed: false };
  if (given.type !== 'allowed_tools') return { mode: 'required', named: [nameOf(given)], isNamed: true };
  const { mode, tools } = given.allowed_tools;
  return { mode, named: tools.map(nameOf), isNamed: false };
}

function nameOf(tool: NamedTool): ToolName {
  const { name } = tool.type === 'function' ? tool.function : tool.custom;
  return { type: tool.type, name };
}

function choiceError(rule: string): InvalidRequestError {
  return new InvalidRequestError(`tool_choice ${rule}`, { param: 'tool_choice' });
}
