// A model's chat template: checked when it is loaded, rendered for each conversation.

import type { ContentFormat } from '../config/content-formats.ts';
import { InvalidRequestError } from '../errors.ts';
import type { CallThread } from '../util/call-thread.ts';
import { TemplateSyntaxError } from './jinja/errors.ts';
import { Template } from './jinja/template.ts';
import { openRenderQueue, RENDER_LIMITS, type RenderLimits, type RenderOrder } from './render-queue.ts';
import type { ChatMessage, ChatTemplate, RenderOptions } from './tokenizer.ts';

/** Texts such as bos_token and eos_token, by the names that templates use. */
export type SpecialTokens = Readonly<Record<string, string>>;

export class JinjaChatTemplate implements ChatTemplate {
  readonly source: string;
  /** As of `defectOf`. */
  readonly defect: string | null;
  readonly #queue: CallThread<RenderOrder, string>;

  /** A template that does not compile refuses every conversation; prompts without it still work. */
  constructor(
    source: string,
    specialTokens: SpecialTokens,
    limits: RenderLimits = RENDER_LIMITS,
    contentFormat: ContentFormat = 'auto',
  ) {
    this.source = source;
    this.defect = defectOf(source);
    this.#queue = openRenderQueue({ source, specialTokens, contentFormat }, limits);
  }

  async render(messages: readonly ChatMessage[], options: RenderOptions): Promise<string> {
    const { variables = {}, addGenerationPrompt: add_generation_prompt, template = null } = options;
    if (this.defect !== null && template === null) {
      throw new InvalidRequestError(
        `the chat template of this model does not compile: ${this.defect}; send a plain prompt to /v1/completions`,
        { param: 'messages' },
      );
    }
    const order = { messages, variables: { ...variables, add_generation_prompt }, source: template };
    return this.#queue.call(order).catch((error: unknown) => {
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
