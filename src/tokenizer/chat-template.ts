// A model's chat template: compiled once, rendered for each conversation.

import { Template } from '@huggingface/jinja';
import { InvalidRequestError } from '../errors.ts';
import { strftime } from './strftime.ts';
import type { ChatMessage, ChatTemplate } from './tokenizer.ts';

/** Texts such as bos_token and eos_token, by the names that templates use. */
export type SpecialTokens = Readonly<Record<string, string>>;

export class JinjaChatTemplate implements ChatTemplate {
  readonly #compiled: Template | Error;
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
      return this.#compiled.render({
        tools: null,
        documents: null,
        strftime_now: (format: string) => strftime(new Date(), format),
        ...this.#specialTokens,
        ...variables,
      });
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new InvalidRequestError(`the chat template refuses these messages: ${reason}`, {
        param: 'messages',
        cause,
      });
    }
  }
}

function compile(source: string): Template | Error {
  try {
    // Python's engine reads any line end as \n; this one would render the \r.
    return new Template(source.replaceAll('\r\n', '\n'));
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
