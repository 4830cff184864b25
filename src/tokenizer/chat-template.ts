// A model's chat template: checked when it is loaded, rendered for each conversation.

import { InvalidRequestError } from '../errors.ts';
import type { CallThread } from '../util/call-thread.ts';
import { TemplateSyntaxError } from './jinja/errors.ts';
import { Template } from './jinja/template.ts';
import { openRenderQueue, RENDER_LIMITS, type RenderLimits, type Variables } from './render-queue.ts';
import type { ChatMessage, ChatTemplate, RenderOptions } from './tokenizer.ts';

/** Texts such as bos_token and eos_token, by the names that templates use. */
export type SpecialTokens = Readonly<Record<string, string>>;

export class JinjaChatTemplate implements ChatTemplate {
  /** As of `defectOf`. */
  readonly defect: string | null;
  readonly #queue: CallThread<Variables, string>;
  readonly #specialTokens: SpecialTokens;

  /** A template that does not compile refuses every conversation; prompts without it still work. */
  constructor(source: string, specialTokens: SpecialTokens, limits: RenderLimits = RENDER_LIMITS) {
    this.defect = defectOf(source);
    this.#queue = openRenderQueue(source, limits);
    this.#specialTokens = specialTokens;
  }

  async render(messages: readonly ChatMessage[], options: RenderOptions): Promise<string> {
    if (this.defect !== null) {
      throw new InvalidRequestError(
        `the chat template of this model does not compile: ${this.defect}; send a plain prompt to /v1/completions`,
        { param: 'messages' },
      );
    }
    const { variables, addGenerationPrompt: add_generation_prompt } = options;
    const given = { ...this.#specialTokens, ...variables, messages, add_generation_prompt };
    return this.#queue.call(given).catch((error: unknown) => {
      if (!(error instanceof DOMException)) throw error;
      throw new InvalidRequestError(`the messages and variables of a chat must be JSON: ${error.message}`, {
        param: 'messages',
        cause: error,
      });
    });
  }

  close(): Promise<void> {
    return this.#queue.close();
  }
}

/** What is wrong with a template, and in which line; null where it compiles. */
export function defectOf(source: string): string | null {
  try {
    new Template(source);
    return null;
  } catch (error) {
    if (error instanceof TemplateSyntaxError) return `line ${error.line}: ${error.message}`;
    throw error;
  }
}
