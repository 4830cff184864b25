// Errors of templates: in their text, and while they run.

/** Rendering failed; the message is in the words of Python where the original would say the same. */
export class TemplateError extends Error {
  /** Of the innermost statement that failed, from 1; null until it is known. */
  line: number | null = null;
}

/** raise_exception() of a template: the template author's message to the sender. */
export class TemplateRefusal extends TemplateError {}

/** The template has an error of syntax: `line` counts from 1. */
export class TemplateSyntaxError extends TemplateError {
  override readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}
