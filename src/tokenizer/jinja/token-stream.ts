// The tokens of a template, read one after the other by the parsers.

import { TemplateSyntaxError } from './errors.ts';
import type { Token, TokenType } from './lexer.ts';

const SHOWN: Partial<Record<TokenType, string>> = {
  outputBegin: '{{',
  outputEnd: '}}',
  blockBegin: '{%',
  blockEnd: '%}',
  end: 'the end of the template',
};

export class TokenStream {
  readonly #tokens: readonly Token[];
  #index = 0;

  /** @param tokens of which the last one is the end. */
  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  get current(): Token {
    return this.#tokens[this.#index]!;
  }

  next(): Token {
    const token = this.current;
    if (token.type !== 'end') this.#index += 1;
    return token;
  }

  is(type: TokenType, text?: string): boolean {
    return this.current.type === type && (text === undefined || this.current.text === text);
  }

  isNext(type: TokenType, text: string): boolean {
    const token = this.#tokens[this.#index + 1];
    return token?.type === type && token.text === text;
  }

  accept(type: TokenType, text?: string): boolean {
    if (!this.is(type, text)) return false;
    this.next();
    return true;
  }

  /** @throws TemplateSyntaxError where another token comes. */
  expect(type: TokenType, text?: string): Token {
    if (!this.is(type, text)) this.fail(text ?? SHOWN[type] ?? `a ${type}`);
    return this.next();
  }

  /** @throws TemplateSyntaxError always. */
  fail(expected?: string, problem = `unexpected ${this.#shown()}`, line = this.current.line): never {
    throw new TemplateSyntaxError(
      expected === undefined ? problem : `${problem}, expected ${expected}`,
      line,
    );
  }

  #shown(): string {
    const { type, text } = this.current;
    return SHOWN[type] ?? (type === 'string' ? JSON.stringify(text) : text);
  }
}
