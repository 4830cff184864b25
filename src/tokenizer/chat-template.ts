// A model's chat template: checked when it is loaded, rendered for each conversation.

import { InvalidRequestError } from '../errors.ts';
import type { CallThread } from '../util/call-thread.ts';
import { type ArgumentsForm, argumentsForm, withTextArguments } from './arguments-form.ts';
import { TemplateSyntaxError } from './jinja/errors.ts';
import { Template } from './jinja/template.ts';
import { openRenderQueue, RENDER_LIMITS, type RenderLimits, type Variables } from './render-queue.ts';
import type { ChatMessage, ChatTemplate, RenderOptions } from './tokenizer.ts';

/** Texts such as bos_token and eos_token, by the names that templates use. */
export type SpecialTokens = Readonly<Record<string, string>>;

export class JinjaChatTemplate implements ChatTemplate {
  readonly #source: string;
  /** As of `defectOf`. */
  readonly defect: string | null;
  readonly #queue: CallThread<Variables, string>;
  readonly #specialTokens: SpecialTokens;
  /** Renders conversations with tools in its place. */
  readonly #forTools: JinjaChatTemplate | null;
  #argumentsForm: Promise<ArgumentsForm> | null = null;

  /** A template that does not compile refuses every conversation; prompts without it still work. */
  constructor(
    source: string,
    specialTokens: SpecialTokens,
    limits: RenderLimits = RENDER_LIMITS,
    forTools: JinjaChatTemplate | null = null,
  ) {
    this.#source = source;
    this.#forTools = forTools;
    this.defect = defectOf(source);
    this.#queue = openRenderQueue(source, limits);
    this.#specialTokens = specialTokens;
  }

  get source(): string {
    return this.#forTools?.source ?? this.#source;
  }

  async render(messages: readonly ChatMessage[], options: RenderOptions): Promise<string> {
    if (options.tools != null && this.#forTools !== null) return this.#forTools.render(messages, options);
    if (this.defect !== null) {
      throw new InvalidRequestError(
        `the chat template of this model does not compile: ${this.defect}; send a plain prompt to /v1/completions`,
        { param: 'messages' },
      );
    }
    const { variables, tools, addGenerationPrompt: add_generation_prompt } = options;
    const shown = await this.#shown(messages);
    return this.#render({
      ...variables,
      ...(tools != null && { tools }),
      messages: shown,
      add_generation_prompt,
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#queue.close(), this.#forTools?.close()]);
  }

  async #render(variables: Variables): Promise<string> {
    return this.#queue.call({ ...this.#specialTokens, ...variables }).catch((error: unknown) => {
      if (!(error instanceof DOMException)) throw error;
      throw new InvalidRequestError(`the messages and variables of a chat must be JSON: ${error.message}`, {
        param: 'messages',
        cause: error,
      });
    });
  }

  /** Messages in the words of this template. */
  async #shown(messages: readonly ChatMessage[]): Promise<readonly object[]> {
    const knowsDevelopers = this.#source.includes('developer');
    const hasCalls = messages.some(({ tool_calls }) => tool_calls !== undefined);
    this.#argumentsForm ??= hasCalls ? argumentsForm((variables) => this.#render(variables)) : null;
    const form = hasCalls ? await this.#argumentsForm : 'object';
    return messages.map((message) => {
      const role = message.role === 'developer' && !knowsDevelopers ? 'system' : message.role;
      const calls = form === 'text' ? message.tool_calls?.map(withTextArguments) : message.tool_calls;
      return { ...message, role, ...(calls !== undefined && { tool_calls: calls }) };
    });
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
