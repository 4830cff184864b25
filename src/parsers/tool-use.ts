// What a request says of tools becomes what the parts of the system need: the template, the parser, the constraint.

import { InvalidRequestError } from '../errors.ts';
import type { RequestConstraint } from '../sampling/structured-outputs.ts';
import type { Constraint } from '../structured-output/constraint.ts';
import { inDoubles } from '../util/exact-json.ts';
import { preview } from '../util/preview.ts';
import { type AnswerFormats, type AnswerReader, answerReader, thoughtTags } from './answer-formats.ts';
import type { FunctionTool } from './answer-parts.ts';
import { asFunction } from './custom-tools.ts';
import { readToolChoice, type ToolName } from './tool-choice.ts';
import { afterThought, optionalCalls, requiredCalls } from './tool-constraint.ts';
import type { ToolFields } from './tool-fields.ts';
import { sequence, type ToolFormat } from './tool-format.ts';
import { hermes } from './tools/hermes.ts';

/** A function as templates show it, its numbers as of `parseExactJson`. */
export interface TemplateTool {
  readonly type: 'function';
  readonly function: Omit<FunctionTool, 'strict'>;
}

export class ToolUse {
  /** Null where the prompt has none. */
  readonly templateTools: readonly TemplateTool[] | null;
  /** A tool that was asked for by its name: its call is no reason to end. */
  readonly isNamed: boolean;
  readonly #formats: AnswerFormats;
  /** Those that may be called. */
  readonly #tools: readonly FunctionTool[];
  readonly #customNames: ReadonlySet<string>;
  /** The request says which of the tools in the prompt may be called. */
  readonly #isRestricted: boolean;
  readonly #isEnforced: boolean;
  readonly #isParallel: boolean;

  /** @throws InvalidRequestError for two tools of one name, and as of `readToolChoice`. */
  constructor({ tools, tool_choice, parallel_tool_calls }: ToolFields, formats: AnswerFormats) {
    const given = tools ?? [];
    const all = given.map((tool) => (tool.type === 'function' ? tool.function : asFunction(tool.custom)));
    const named = given.map(({ type }, index) => ({ type, name: all[index]!.name }));
    checkNames(named);
    const { mode, names, isNamed } = readToolChoice(tool_choice, named, formats);
    this.#customNames = new Set(named.filter(({ type }) => type === 'custom').map(({ name }) => name));
    this.isNamed = isNamed;
    this.#isEnforced = mode === 'required';
    this.#isParallel = (parallel_tool_calls ?? true) && !isNamed;
    const callable = mode === 'none' ? [] : all.filter(({ name }) => names?.includes(name) ?? true);
    this.#tools = callable.map((tool) => inDoubles(tool));
    this.#isRestricted = names !== null;
    this.templateTools = mode === 'none' || all.length === 0 ? null : all.map(templateTool);
    // What is enforced can be read, whether or not the model was trained for it.
    this.#formats = this.#isEnforced ? { ...formats, tools: formats.tools ?? hermes } : formats;
  }

  /** Ids of calls have this many characters where the model knows only such; null: of any length. */
  get idLength(): number | null {
    return this.#formats.tools?.idLength ?? null;
  }

  /** @param prompt rendered. */
  reader(prompt: string): AnswerReader | null {
    const maxCalls = this.#isParallel ? Number.POSITIVE_INFINITY : 1;
    return answerReader(this.#formats, {
      prompt,
      tools: this.#tools,
      maxCalls,
      isEnforced: this.#isEnforced,
      customNames: this.#customNames,
    });
  }

  /**
   * What the answer must be, together with what is `asked` by other fields; null where it may be anything.
   * @param prompt rendered.
   * @throws InvalidRequestError naming what cannot be enforced, or fields that contradict each other.
   */
  constraint(asked: RequestConstraint | null, prompt: string): RequestConstraint | null {
    const { reasoning, tools: format } = this.#formats;
    const tags = reasoning?.isOver(prompt) ? null : thoughtTags(this.#formats);
    const thought = { tags, isOpen: reasoning?.isOpen(prompt) ?? false };
    const calls = { tools: this.#tools, isParallel: this.#isParallel };
    if (this.#isEnforced && format !== null) {
      if (asked !== null) throw bothSay(asked.field);
      return { field: 'tool_choice', constraint: afterThought(requiredCalls(format, calls), thought) };
    }
    const mayCall = format !== null && this.#tools.length > 0;
    if (asked !== null) {
      // What other fields say of the answer, they do not say of calls.
      const said = inAnswer(asked.constraint, format, prompt);
      const answer = mayCall ? eitherOf(said, requiredCalls(format, calls)) : said;
      return { ...asked, constraint: afterThought(answer, thought) };
    }
    const isStrict = this.#tools.some(({ strict }) => strict === true);
    if (!mayCall || !(isStrict || this.#isRestricted)) return null;
    const answer = optionalCalls(format, calls);
    // Free text may hold a thought; where calls are the whole answer, they come after it.
    const constraint = format.writing.trigger === null ? afterThought(answer, thought) : answer;
    return { field: this.#isRestricted ? 'tool_choice' : 'tools', constraint };
  }
}

/** Where the model writes its answer. */
function inAnswer(said: Constraint, format: ToolFormat | null, prompt: string): Constraint {
  const { answer } = format ?? {};
  return answer !== undefined && prompt.endsWith(answer.turn) ? sequence(answer.begin, said) : said;
}

function eitherOf(...options: readonly Constraint[]): Constraint {
  return { kind: 'choice', options };
}

/** Published templates fail on a function without a description or parameters. */
function templateTool({ name, description, parameters, strict: _, ...others }: FunctionTool): TemplateTool {
  const shown = { description: description ?? '', parameters: parameters ?? NO_PARAMETERS };
  return { type: 'function', function: { name, ...shown, ...others } };
}

const NO_PARAMETERS = { type: 'object', properties: {} };

function checkNames(tools: readonly ToolName[]): void {
  const seen = new Map<string, ToolName['type']>();
  for (const { name, type } of tools) {
    const before = seen.get(name);
    if (before !== undefined) {
      const kind = before === type ? `${type === 'custom' ? 'custom tool' : 'function'}s` : 'tools';
      throw toolsError('tools', `tools has two ${kind} ${preview(name)}: names must differ`);
    }
    seen.set(name, type);
  }
}

function bothSay(field: string): InvalidRequestError {
  return toolsError(
    'tool_choice',
    `tool_choice asks for a call, and ${field} for another answer: leave one of them out`,
  );
}

function toolsError(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError(message, { param });
}
