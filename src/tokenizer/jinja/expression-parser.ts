// The grammar of expressions, from the loosest binding to the tightest: tokens in, a function out that computes.

import type { Builtin } from './arguments.ts';
import { TemplateError } from './errors.ts';
import * as expressions from './expressions.ts';
import {
  type ArgumentList,
  COMPARISONS,
  type Comparison,
  EMPTY_LIST,
  type Expression,
} from './expressions.ts';
import { FILTERS, FILTERS_NOT_SERVED } from './filters.ts';
import { getSlice } from './members.ts';
import { binary, OPERATIONS, signed } from './operators.ts';
import { TESTS } from './tests.ts';
import type { TokenStream } from './token-stream.ts';
import { Float, integer, type Value } from './values.ts';

const CONSTANTS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);

/** What ends a tuple that has no parentheses. */
const TUPLE_ENDS = ['in', 'if', 'else', 'recursive'];

type Call = { readonly callee: Expression; readonly args: ArgumentList };

export class ExpressionParser {
  readonly #tokens: TokenStream;
  #names = new Set<string>();
  /** Inside of if: what may never run may name filters that there are not. */
  #numGuards = 0;
  #lastCall: (Call & { readonly expression: Expression }) | null = null;

  constructor(tokens: TokenStream) {
    this.#tokens = tokens;
  }

  /** Names of variables that `parse` meets. */
  namesRead<T>(parse: () => T): { readonly result: T; readonly names: ReadonlySet<string> } {
    const outer = this.#names;
    this.#names = new Set();
    const result = parse();
    const names = this.#names;
    this.#names = new Set([...outer, ...names]);
    return { result, names };
  }

  /** Inside of `parse` a filter or test that is not known fails when it is used, not before. */
  guarded<T>(parse: () => T): T {
    this.#numGuards += 1;
    try {
      return parse();
    } finally {
      this.#numGuards -= 1;
    }
  }

  expression(): Expression {
    const tokens = this.#tokens;
    let value = this.#or();
    while (tokens.accept('name', 'if')) {
      const test = this.#or();
      const no = tokens.accept('name', 'else') ? this.guarded(() => this.expression()) : null;
      value = expressions.conditional(test, value, no);
    }
    return value;
  }

  /** An expression, or several with commas between them. */
  tuple({ isConditional = true, ends = [] as readonly string[], isInParentheses = false } = {}): Expression {
    const tokens = this.#tokens;
    const items: Expression[] = [];
    const isEnd = (): boolean =>
      tokens.is('outputEnd') ||
      tokens.is('blockEnd') ||
      tokens.is('operator', ')') ||
      (tokens.is('name') && [...ends, ...TUPLE_ENDS].includes(tokens.current.text));
    let isTuple = false;
    while (!isEnd()) {
      items.push(isConditional ? this.expression() : this.#or());
      if (!tokens.accept('operator', ',')) break;
      isTuple = true;
    }
    if (items.length === 0 && !isInParentheses) tokens.fail('an expression');
    return isTuple || items.length === 0 ? expressions.tupleOf(items) : items[0]!;
  }

  /** An expression that ends with a call; null where it does not. */
  call(): Call | null {
    const expression = this.expression();
    return this.#lastCall?.expression === expression ? this.#lastCall : null;
  }

  /** `| filter | filter(...)`, to be applied to something else; `isInline` begins without the first bar. */
  filters(isInline = false): (operand: Expression) => Expression {
    const chain: ((operand: Expression) => Expression)[] = [];
    if (isInline) chain.push(this.#filter());
    while (this.#tokens.accept('operator', '|')) chain.push(this.#filter());
    return (operand) => chain.reduce((value, filter) => filter(value), operand);
  }

  #or(): Expression {
    let left = this.#and();
    while (this.#tokens.accept('name', 'or')) left = expressions.or(left, this.#and());
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.#tokens.accept('name', 'and')) left = expressions.and(left, this.#not());
    return left;
  }

  #not(): Expression {
    if (this.#tokens.accept('name', 'not')) return expressions.not(this.#not());
    return this.#comparison();
  }

  #comparison(): Expression {
    const first = this.#sum();
    const rest: (readonly [Comparison, Expression])[] = [];
    for (let holds = this.#comparisonOperator(); holds !== null; holds = this.#comparisonOperator()) {
      rest.push([holds, this.#sum()]);
    }
    return rest.length === 0 ? first : expressions.comparison(first, rest);
  }

  #comparisonOperator(): Comparison | null {
    const tokens = this.#tokens;
    if (tokens.is('name', 'not') && tokens.isNext('name', 'in')) {
      tokens.next();
      tokens.next();
      return COMPARISONS.get('not in')!;
    }
    if (!tokens.is('operator') && !tokens.is('name', 'in')) return null;
    const holds = COMPARISONS.get(tokens.current.text);
    if (holds === undefined) return null;
    tokens.next();
    return holds;
  }

  #sum(): Expression {
    return this.#leftToRight(['+', '-'], () => this.#concatenation());
  }

  #concatenation(): Expression {
    const parts = [this.#product()];
    while (this.#tokens.accept('operator', '~')) parts.push(this.#product());
    return parts.length === 1 ? parts[0]! : expressions.concatenation(parts);
  }

  #product(): Expression {
    return this.#leftToRight(['*', '/', '//', '%'], () => this.#power());
  }

  #power(): Expression {
    return this.#leftToRight(['**'], () => this.#unary());
  }

  #leftToRight(operators: readonly string[], operand: () => Expression): Expression {
    const tokens = this.#tokens;
    let left = operand();
    while (tokens.is('operator') && operators.includes(tokens.current.text)) {
      const operation = OPERATIONS.get(tokens.next().text)!;
      left = binary(operation, left, operand());
    }
    return left;
  }

  /** A sign binds tighter than a filter: -1 | abs is 1. */
  #unary(takesFilters = true): Expression {
    const tokens = this.#tokens;
    let value: Expression;
    if (tokens.accept('operator', '-')) value = signed(-1, this.#unary(false));
    else if (tokens.accept('operator', '+')) value = signed(1, this.#unary(false));
    else value = this.#primary();
    value = this.#postfix(value);
    return takesFilters ? this.#filtersAndTests(value) : value;
  }

  #primary(): Expression {
    const tokens = this.#tokens;
    const { type, text } = tokens.current;
    if (type === 'name') {
      tokens.next();
      const constant = CONSTANTS.get(text);
      if (constant !== undefined) return expressions.literal(constant);
      this.#names.add(text);
      return expressions.variable(text);
    }
    if (type === 'string') return this.#string();
    if (tokens.accept('integer')) return expressions.literal(integer(BigInt(text.replaceAll('_', ''))));
    if (tokens.accept('float')) return expressions.literal(new Float(Number(text.replaceAll('_', ''))));
    if (tokens.accept('operator', '(')) {
      const value = this.tuple({ isInParentheses: true });
      tokens.expect('operator', ')');
      return value;
    }
    if (tokens.accept('operator', '[')) return expressions.list(this.#listed(']', () => this.expression()));
    if (tokens.accept('operator', '{')) return expressions.dict(this.#listed('}', () => this.#entry()));
    return tokens.fail('an expression');
  }

  /** Adjacent texts are one. */
  #string(): Expression {
    let text = '';
    while (this.#tokens.is('string')) text += this.#tokens.next().text;
    return expressions.literal(text);
  }

  #listed<T>(end: string, one: () => T): T[] {
    const tokens = this.#tokens;
    const items: T[] = [];
    while (!tokens.accept('operator', end)) {
      if (items.length > 0) tokens.expect('operator', ',');
      if (tokens.accept('operator', end)) break;
      items.push(one());
    }
    return items;
  }

  #entry(): readonly [Expression, Expression] {
    const key = this.expression();
    this.#tokens.expect('operator', ':');
    return [key, this.expression()];
  }

  #postfix(value: Expression): Expression {
    const tokens = this.#tokens;
    for (let result = value; ; ) {
      if (tokens.accept('operator', '.')) result = this.#member(result);
      else if (tokens.accept('operator', '[')) result = this.#subscript(result);
      else if (tokens.is('operator', '(')) result = this.#called(result);
      else return result;
    }
  }

  #member(object: Expression): Expression {
    const tokens = this.#tokens;
    const { text } = tokens.current;
    if (tokens.accept('integer')) return expressions.item(object, expressions.literal(Number(text)));
    return expressions.attribute(object, tokens.expect('name').text);
  }

  #subscript(object: Expression): Expression {
    const tokens = this.#tokens;
    const bound = (): Expression =>
      tokens.is('operator', ':') || tokens.is('operator', ']')
        ? expressions.literal(null)
        : this.expression();
    const start = bound();
    if (!tokens.is('operator', ':')) {
      tokens.expect('operator', ']');
      return expressions.item(object, start);
    }
    const stop = tokens.accept('operator', ':') ? bound() : expressions.literal(null);
    const step = tokens.accept('operator', ':') ? bound() : expressions.literal(null);
    tokens.expect('operator', ']');
    return (scope) => getSlice(object(scope), start(scope), stop(scope), step(scope));
  }

  #called(callee: Expression): Expression {
    const args = this.#arguments();
    const expression = expressions.call(callee, args);
    this.#lastCall = { callee, args, expression };
    return expression;
  }

  #arguments(): ArgumentList {
    const tokens = this.#tokens;
    const positional: { readonly value: Expression; readonly isSpread: boolean }[] = [];
    const keywords: { readonly name: string | null; readonly value: Expression }[] = [];
    tokens.expect('operator', '(');
    this.#listed(')', () => {
      const { text } = tokens.current;
      if (tokens.accept('operator', '**')) keywords.push({ name: null, value: this.expression() });
      else if (tokens.accept('operator', '*')) positional.push({ value: this.expression(), isSpread: true });
      else if (tokens.is('name') && tokens.isNext('operator', '=')) {
        tokens.next();
        tokens.next();
        keywords.push({ name: text, value: this.expression() });
      } else if (keywords.length > 0) tokens.fail('an argument with a name');
      else positional.push({ value: this.expression(), isSpread: false });
    });
    return { positional, keywords };
  }

  #filtersAndTests(value: Expression): Expression {
    const tokens = this.#tokens;
    for (let result = value; ; ) {
      if (tokens.accept('operator', '|')) result = this.#filter()(result);
      else if (tokens.accept('name', 'is')) result = this.#test(result);
      else if (tokens.is('operator', '(')) result = this.#called(result);
      else return result;
    }
  }

  #filter(): (operand: Expression) => Expression {
    const { line } = this.#tokens.current;
    const apply = this.#builtin('filter', FILTERS, this.#tokens.expect('name').text, line);
    const args = this.#tokens.is('operator', '(') ? this.#arguments() : EMPTY_LIST;
    return (operand) => expressions.application(apply, operand, args);
  }

  #test(operand: Expression): Expression {
    const tokens = this.#tokens;
    const { line } = tokens.current;
    const isNegated = tokens.accept('name', 'not');
    const apply = this.#builtin('test', TESTS, tokens.next().text, line);
    const result = expressions.application(apply, operand, this.#testArguments());
    return isNegated ? expressions.not(result) : result;
  }

  /** In parentheses, or one value without them: `is divisibleby 3`. */
  #testArguments(): ArgumentList {
    const tokens = this.#tokens;
    if (tokens.is('operator', '(')) return this.#arguments();
    const begins =
      ['string', 'integer', 'float'].includes(tokens.current.type) ||
      tokens.is('operator', '[') ||
      tokens.is('operator', '{') ||
      (tokens.is('name') &&
        !['else', 'or', 'and', 'is', 'if', 'in', 'not', 'recursive'].includes(tokens.current.text));
    if (!begins) return EMPTY_LIST;
    return { positional: [{ value: this.#postfix(this.#primary()), isSpread: false }], keywords: [] };
  }

  #builtin(kind: string, known: ReadonlyMap<string, Builtin>, name: string, line: number): Builtin {
    const found = known.get(name);
    if (found !== undefined) return found;
    const isKnown = kind === 'filter' && FILTERS_NOT_SERVED.includes(name);
    const problem = isKnown ? `the filter ${name} is not served` : `there is no ${kind} ${name}`;
    if (this.#numGuards === 0) this.#tokens.fail(undefined, problem, line);
    return () => {
      throw new TemplateError(problem);
    };
  }
}
