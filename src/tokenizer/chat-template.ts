// A model's chat template: compiled once, rendered for each conversation.

import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { InvalidRequestError } from '../errors.ts';
import { strftime } from './strftime.ts';
import type { ChatMessage, ChatTemplate } from './tokenizer.ts';

/** Texts such as bos_token and eos_token, by the names that templates use. */
export type SpecialTokens = Readonly<Record<string, string>>;

type Program = ReturnType<typeof parse>;

/** What raise_exception() of a template throws: its author's words to the caller. */
class TemplateRefusal extends Error {}

export class JinjaChatTemplate implements ChatTemplate {
  readonly #compiled: Program | Error;
  readonly #specialTokens: SpecialTokens;

  /** A template that does not compile refuses every conversation; prompts without it still work. */
  constructor(source: string, specialTokens: SpecialTokens) {
    this.#compiled = compile(source);
    this.#specialTokens = specialTokens;
  }

  render(
    messages: readonly ChatMessage[],
    options: {
      readonly addGenerationPrompt: boolean;
      readonly variables?: Readonly<Record<string, unknown>>;
    },
  ): string {
    return this.renderVariables({
      ...options.variables,
      messages,
      add_generation_prompt: options.addGenerationPrompt,
    });
  }

  /**
   * Renders with exactly these variables beside the special tokens and the functions that templates expect.
   * @throws InvalidRequestError when the template refuses, fails or does not compile.
   */
  renderVariables(variables: Readonly<Record<string, unknown>>): string {
    if (this.#compiled instanceof Error) {
      throw new InvalidRequestError(
        `the chat template of this model does not compile: ${this.#compiled.message}; send a plain prompt to /v1/completions`,
        { param: 'messages', cause: this.#compiled },
      );
    }
    try {
      return run(this.#compiled, { tools: null, documents: null, ...this.#specialTokens, ...variables });
    } catch (cause) {
      const verb = cause instanceof TemplateRefusal ? 'refuses' : 'fails on';
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new InvalidRequestError(`the chat template ${verb} these messages: ${reason}`, {
        param: 'messages',
        cause,
      });
    }
  }
}

function run(program: Program, variables: Readonly<Record<string, unknown>>): string {
  const globals = new Environment();
  for (const [name, value] of Object.entries(GLOBALS)) globals.set(name, value);
  // A scope of its own: a variable of the caller may hide a global.
  const scope = new Environment(globals);
  for (const [name, value] of Object.entries(variables)) scope.set(name, value);
  const output: unknown = new Interpreter(scope).run(program).value;
  if (typeof output !== 'string') throw new Error('it gives no text');
  return output;
}

const GLOBALS: Readonly<Record<string, unknown>> = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
  range: (startOrStop: number, stop?: number, step = 1) =>
    stop === undefined ? countUp(0, startOrStop, 1) : countUp(startOrStop, stop, step),
  strftime_now: (format: string) => strftime(new Date(), format),
  raise_exception: (message: unknown) => {
    throw new TemplateRefusal(String(message));
  },
};

function countUp(start: number, stop: number, step: number): number[] {
  if (step === 0) throw new Error('range() step must not be 0');
  return Array.from({ length: Math.max(0, Math.ceil((stop - start) / step)) }, (_, i) => start + i * step);
}

function compile(source: string): Program | Error {
  try {
    // Python's engine reads any line end as \n; this one would render the \r.
    return parse(tokenize(source.replaceAll('\r\n', '\n'), { lstrip_blocks: true, trim_blocks: true }));
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
