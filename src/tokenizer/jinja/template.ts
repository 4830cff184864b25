// Jinja as chat templates use it: compiled once, rendered with the variables of a request. Python's engine, in the
// environment that published templates are written for, defines what it prints.

import { TemplateSyntaxError } from './errors.ts';
import { defineGlobals } from './globals.ts';
import { depthError, LimitError } from './limits.ts';
import { parse } from './parser.ts';
import { Output, Scope } from './scope.ts';
import type { Statement } from './statements.ts';
import { fromJson } from './values.ts';

export class Template {
  readonly #render: Statement;

  /** @throws TemplateSyntaxError naming the line. */
  constructor(source: string) {
    try {
      this.#render = parse(source);
    } catch (error) {
      if (error instanceof RangeError)
        throw new TemplateSyntaxError('expressions lie too deep in each other', 1);
      throw error;
    }
  }

  /**
   * @param variables JSON values; they may hide the names that templates have anyway.
   * @throws TemplateError where the template refuses or fails.
   */
  render(variables: Readonly<Record<string, unknown>>, now = new Date()): string {
    try {
      const globals = new Scope();
      defineGlobals(globals, now);
      const scope = new Scope(globals);
      for (const [name, value] of Object.entries(variables)) {
        if (value !== undefined) scope.set(name, fromJson(value));
      }
      const output = new Output();
      this.#render(scope, output);
      return output.text;
    } catch (error) {
      throw error instanceof RangeError ? limitOf(error) : error;
    }
  }
}

/** What the engine below says when it has no more stack, or a text or list would be beyond all bounds. */
function limitOf(error: RangeError): LimitError {
  return /call stack/.test(error.message)
    ? depthError()
    : new LimitError(`a value grows too large: ${error.message}`);
}
