// The grammar of statements: tokens in, a function out that renders the template.

import { ExpressionParser } from './expression-parser.ts';
import { tokenize } from './lexer.ts';
import type { Parameter, Signature, Statement, Target } from './statements.ts';
import * as statements from './statements.ts';
import { TokenStream } from './token-stream.ts';

const NOTHING: Statement = statements.block([], []);

/** @throws TemplateSyntaxError naming the line. */
export function parse(source: string): Statement {
  const tokens = new TokenStream(tokenize(source));
  return new Parser(tokens).template();
}

class Parser {
  readonly #tokens: TokenStream;
  readonly #expressions: ExpressionParser;
  #loops = 0;
  /** What comes after the name of a tag. */
  readonly #tags: ReadonlyMap<string, () => Statement> = new Map([
    ['if', () => this.#if()],
    ['for', () => this.#for()],
    ['set', () => this.#set()],
    ['macro', () => this.#macro()],
    ['call', () => this.#call()],
    ['filter', () => this.#filter()],
    ['with', () => this.#with()],
    ['generation', () => statements.scoped([], this.#block('endgeneration').body)],
    ['break', () => this.#jump('break')],
    ['continue', () => this.#jump('continue')],
  ]);

  constructor(tokens: TokenStream) {
    this.#tokens = tokens;
    this.#expressions = new ExpressionParser(tokens);
  }

  template(): Statement {
    const body = this.#body([]);
    if (!this.#tokens.is('end')) this.#tokens.fail();
    return body;
  }

  /** Statements up to a tag that is one of `ends`, of which the name is the next token then. */
  #body(ends: readonly string[]): Statement {
    const parts: Statement[] = [];
    const lines: number[] = [];
    const tokens = this.#tokens;
    while (!tokens.is('end')) {
      const { text, line } = tokens.current;
      lines.push(line);
      if (tokens.accept('text')) parts.push(statements.text(text));
      else if (tokens.accept('outputBegin')) {
        parts.push(statements.printed(this.#expressions.tuple()));
        tokens.expect('outputEnd');
      } else {
        tokens.expect('blockBegin');
        if (ends.some((end) => tokens.is('name', end))) return statements.block(parts, lines);
        parts.push(this.#statement());
        tokens.expect('blockEnd');
      }
    }
    if (ends.length > 0) tokens.fail(ends.map((end) => `{% ${end} %}`).join(' or '));
    return statements.block(parts, lines);
  }

  /** The rest of this tag's line, its body, and the name of the tag that ends it. */
  #block(...ends: readonly string[]): { readonly body: Statement; readonly end: string } {
    this.#tokens.expect('blockEnd');
    const body = this.#body(ends);
    return { body, end: this.#tokens.next().text };
  }

  #statement(): Statement {
    const tokens = this.#tokens;
    const name = tokens.current;
    tokens.expect('name');
    const parse = this.#tags.get(name.text);
    if (parse !== undefined) return parse();
    return tokens.fail('a statement that chat templates have', `unknown tag ${name.text}`, name.line);
  }

  #jump(to: 'break' | 'continue'): Statement {
    if (this.#loops === 0) this.#tokens.fail(undefined, `${to} outside of a for`);
    return statements.jump(to);
  }

  #if(): Statement {
    const test = this.#expressions.tuple({ isConditional: false });
    const { body, end } = this.#expressions.guarded(() => this.#block('elif', 'else', 'endif'));
    return statements.ifElse(
      test,
      body,
      this.#expressions.guarded(() => this.#otherwise(end)),
    );
  }

  #otherwise(end: string): Statement {
    if (end === 'elif') return this.#if();
    return end === 'else' ? this.#block('endif').body : NOTHING;
  }

  #for(): Statement {
    const tokens = this.#tokens;
    const target = this.#target(false);
    tokens.expect('name', 'in');
    const items = this.#expressions.tuple({ isConditional: false, ends: ['recursive'] });
    const test = tokens.accept('name', 'if') ? this.#expressions.expression() : null;
    const isRecursive = tokens.accept('name', 'recursive');
    this.#loops += 1;
    const { body, end } = this.#block('endfor', 'else');
    this.#loops -= 1;
    const otherwise = end === 'else' ? this.#block('endfor').body : NOTHING;
    return statements.forLoop({ target, items, test, body, otherwise, isRecursive });
  }

  #set(): Statement {
    const target = this.#target(true);
    if (this.#tokens.accept('operator', '=')) return statements.set(target, this.#expressions.tuple());
    const filters = this.#expressions.filters();
    return statements.set(target, filters(statements.captured(this.#block('endset').body)));
  }

  #macro(): Statement {
    const name = this.#tokens.expect('name').text;
    const { signature, body } = this.#callable(name, 'endmacro');
    return statements.macro(signature, body);
  }

  #call(): Statement {
    const tokens = this.#tokens;
    const parameters = tokens.is('operator', '(') ? this.#parameters() : [];
    const { line } = tokens.current;
    const called = this.#expressions.call();
    if (called === null) return tokens.fail('a call', undefined, line);
    const { signature, body } = this.#callable('caller', 'endcall', parameters);
    return statements.callBlock(called.callee, called.args, signature, body);
  }

  /** What a macro or a call block is: parameters and a body, which no break can leave. */
  #callable(
    name: string,
    end: string,
    parameters: readonly Parameter[] = this.#parameters(),
  ): { readonly signature: Signature; readonly body: Statement } {
    const loops = this.#loops;
    this.#loops = 0;
    const { result, names } = this.#expressions.namesRead(() => this.#block(end));
    this.#loops = loops;
    const takesMore = names.has('varargs') || names.has('kwargs');
    return { signature: { name, parameters, takesMore }, body: result.body };
  }

  #parameters(): Parameter[] {
    const tokens = this.#tokens;
    const parameters: Parameter[] = [];
    tokens.expect('operator', '(');
    while (!tokens.accept('operator', ')')) {
      if (parameters.length > 0) tokens.expect('operator', ',');
      if (tokens.accept('operator', ')')) break;
      const name = tokens.expect('name').text;
      const fallback = tokens.accept('operator', '=') ? this.#expressions.expression() : null;
      parameters.push({ name, fallback });
    }
    return parameters;
  }

  #filter(): Statement {
    const filters = this.#expressions.filters(true);
    return statements.printed(filters(statements.captured(this.#block('endfilter').body)));
  }

  #with(): Statement {
    const tokens = this.#tokens;
    const values: statements.Assignment[] = [];
    while (!tokens.is('blockEnd')) {
      if (values.length > 0) tokens.expect('operator', ',');
      const target = this.#target(false);
      tokens.expect('operator', '=');
      values.push({ target, value: this.#expressions.expression() });
    }
    return statements.scoped(values, this.#block('endwith').body);
  }

  /** A name, several of them, or a field of a namespace. */
  #target(allowsField: boolean): Target {
    const tokens = this.#tokens;
    const targets: Target[] = [this.#oneTarget(allowsField)];
    let isTuple = false;
    while (tokens.accept('operator', ',')) {
      isTuple = true;
      if (!tokens.is('name') && !tokens.is('operator', '(')) break;
      targets.push(this.#oneTarget(allowsField));
    }
    return isTuple ? statements.assignEach(targets) : targets[0]!;
  }

  #oneTarget(allowsField: boolean): Target {
    const tokens = this.#tokens;
    if (tokens.accept('operator', '(')) {
      const inner = this.#target(allowsField);
      tokens.expect('operator', ')');
      return inner;
    }
    const name = tokens.expect('name').text;
    if (!allowsField || !tokens.accept('operator', '.')) return statements.assignName(name);
    return statements.assignField(name, tokens.expect('name').text);
  }
}
