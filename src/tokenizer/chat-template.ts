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

interface TemplateOptions {
  /** Another template for conversations with tools; null without one. */
  readonly sourceForTools?: string | null;
  readonly contentFormat?: ContentFormat;
  /** See `RenderThreadData`. */
  readonly imageLine?: string | null;
  readonly limits?: RenderLimits;
}

export class JinjaChatTemplate implements ChatTemplate {
  readonly source: string;
  readonly sourceForTools: string;
  /** As of `defectOf`. */
  readonly defect: string | null;
  readonly #defectForTools: string | null;
  readonly #queue: CallThread<RenderOrder, string>;

  /** A template that does not compile refuses every conversation; prompts without it still work. */
  constructor(
    source: string,
    specialTokens: SpecialTokens,
    {
      sourceForTools = null,
      contentFormat = 'auto',
      imageLine = null,
      limits = RENDER_LIMITS,
    }: TemplateOptions = {},
  ) {
    this.source = source;
    this.sourceForTools = sourceForTools ?? source;
    this.defect = defectOf(source);
    this.#defectForTools = sourceForTools === null ? this.defect : defectOf(sourceForTools);
    this.#queue = openRenderQueue({ source, specialTokens, contentFormat, imageLine }, limits);
  }

  async render(messages: readonly ChatMessage[], options: RenderOptions): Promise<string> {
    const { variables, tools = null, addGenerationPrompt: add_generation_prompt, template = null } = options;
    const defect = tools === null ? this.defect : this.#defectForTools;
    if (defect !== null && template === null) {
      throw new InvalidRequestError(
        `the chat template of this model does not compile: ${defect}; send a plain prompt to /v1/completions`,
        { param: 'messages' },
      );
    }
    const chosen = template ?? (tools === null ? this.source : this.sourceForTools);
    // The thread has its own already.
    const source = chosen === this.source ? null : chosen;
    const given = { ...variables, ...(tools !== null && { tools }), add_generation_prompt };
    const { caller } = options;
    return this.#queue.call({ messages, variables: given, source }, { caller }).catch((error: unknown) => {
      if (!(error instanceof DOMException)) throw error;
      throw new InvalidRequestError(`the messages and variables of a chat must be JSON: ${error.message}`, {
        param: 'messages',
        cause: error,
      });
    });
  }

  async close(): Promise<void> {
    await this.#queue.close();
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
