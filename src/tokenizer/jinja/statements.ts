// What each statement of the language does: a function that writes to the output and says whether its loop goes on.

import { TemplateError } from './errors.ts';
import { type ArgumentList, callValue, type Expression, evaluateArguments } from './expressions.ts';
import { checkLength } from './limits.ts';
import { Loop } from './loop.ts';
import { print } from './print.ts';
import { Output, Scope } from './scope.ts';
import {
  type Arguments,
  type Dict,
  isTruthy,
  iterate,
  Namespace,
  orUndefined,
  tuple,
  type Value,
} from './values.ts';

/** What the loop around a statement does next; null continues after the statement. */
type Jump = 'break' | 'continue' | null;
export type Statement = (scope: Scope, output: Output) => Jump;
/** What `for` and `set` assign to. */
export type Target = (scope: Scope, value: Value) => void;

export interface Parameter {
  readonly name: string;
  readonly fallback: Expression | null;
}

/** The parameters of a macro or a call block. */
export interface Signature {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  /** The body reads `varargs` and `kwargs`: arguments that have no parameter are welcome. */
  readonly takesMore: boolean;
}

/** One after which the next statement follows. */
function plain(run: (scope: Scope, output: Output) => void): Statement {
  return (scope, output) => {
    run(scope, output);
    return null;
  };
}

export function text(written: string): Statement {
  return plain((_, output) => output.write(written));
}

export function printed(expression: Expression): Statement {
  return plain((scope, output) => output.write(print(expression(scope))));
}

export function jump(to: 'break' | 'continue'): Statement {
  return () => to;
}

/** @param lines of the statements in the source, for errors. */
export function block(statements: readonly Statement[], lines: readonly number[]): Statement {
  return (scope, output) => {
    let index = 0;
    try {
      for (; index < statements.length; index++) {
        const next = statements[index]!(scope, output);
        if (next !== null) return next;
      }
    } catch (error) {
      if (error instanceof TemplateError) error.line ??= lines[index]!;
      throw error;
    }
    return null;
  };
}

export function ifElse(test: Expression, body: Statement, otherwise: Statement): Statement {
  return (scope, output) => (isTruthy(test(scope)) ? body(scope, output) : otherwise(scope, output));
}

interface ForParts {
  readonly target: Target;
  readonly items: Expression;
  /** Items for which it is false are left out; null takes all. */
  readonly test: Expression | null;
  readonly body: Statement;
  readonly otherwise: Statement;
  readonly isRecursive: boolean;
}

export function forLoop(parts: ForParts): Statement {
  return plain((scope, output) => runLoop(parts, scope, output, parts.items(scope), 0));
}

function runLoop(parts: ForParts, scope: Scope, output: Output, source: Value, depth: number): void {
  const { target, body, otherwise, isRecursive } = parts;
  const items = loopItems(parts, scope, source);
  const again = (inner: Value, innerDepth: number): string =>
    scope.deeper(() => {
      const own = new Output();
      runLoop(parts, scope, own, inner, innerDepth);
      return own.text;
    });
  const loop = new Loop(items, depth, isRecursive ? again : null);
  const round = new Scope(scope);
  let numOwn = 0;
  // As in the original, `else` is also for a loop of which `break` and `continue` have left every round.
  let hasWholeRound = false;
  for (const item of items) {
    // A round starts without the names set by the last one; mostly there are none, and looping is quick.
    if (round.size !== numOwn) round.clear();
    round.set('loop', loop);
    target(round, item);
    numOwn = round.size;
    const jump = body(round, output);
    hasWholeRound ||= jump === null;
    if (jump === 'break') break;
    loop.index += 1;
  }
  if (!hasWholeRound) otherwise(new Scope(scope), output);
}

function loopItems({ test, target }: ForParts, scope: Scope, source: Value): readonly Value[] {
  const items = Array.isArray(source) ? source : [...iterate(source)];
  checkLength(items.length);
  if (test === null) return items;
  const round = new Scope(scope);
  return items.filter((item) => {
    target(round, item);
    return isTruthy(test(round));
  });
}

export function assignName(name: string): Target {
  return (scope, value) => scope.set(name, value);
}

/** `a, b = pair`. */
export function assignEach(targets: readonly Target[]): Target {
  return (scope, value) => {
    const items = [...iterate(value)];
    if (items.length !== targets.length) {
      const problem = items.length < targets.length ? 'not enough' : 'too many';
      throw new TemplateError(
        `${problem} values to unpack (expected ${targets.length}, got ${items.length})`,
      );
    }
    for (const [index, target] of targets.entries()) target(scope, items[index]!);
  };
}

/** `name.field = value`, for namespaces only. */
export function assignField(name: string, field: string): Target {
  return (scope, value) => {
    const owner = scope.get(name);
    if (!(owner instanceof Namespace)) {
      throw new TemplateError('cannot assign attribute on non-namespace object');
    }
    owner.fields.set(field, value);
  };
}

export function set(target: Target, value: Expression): Statement {
  return plain((scope) => target(scope, value(scope)));
}

/** What a block prints, as a value. */
export function captured(body: Statement): Expression {
  return (scope) => capture(body, new Scope(scope));
}

function capture(body: Statement, scope: Scope): string {
  const output = new Output();
  body(scope, output);
  return output.text;
}

export interface Assignment {
  readonly target: Target;
  readonly value: Expression;
}

/** A block with names of its own. Their values know the names outside alone, not each other. */
export function scoped(assignments: readonly Assignment[], body: Statement): Statement {
  return (scope, output) => {
    const inner = new Scope(scope);
    for (const { target, value } of assignments) target(inner, value(scope));
    return body(inner, output);
  };
}

export function macro(signature: Signature, body: Statement): Statement {
  return plain((scope) => scope.set(signature.name, (args) => renderMacro(signature, body, args, scope)));
}

function renderMacro(signature: Signature, body: Statement, args: Arguments, outer: Scope): string {
  return outer.deeper(() => {
    const scope = new Scope(outer);
    const keywords: Dict = new Map(args.keywords);
    scope.set('caller', orUndefined(keywords.get('caller'), 'there is no caller'));
    keywords.delete('caller');
    const given = signature.parameters.map(({ name }, index) => {
      const value = index < args.positional.length ? args.positional[index] : keywords.get(name);
      keywords.delete(name);
      scope.set(name, orUndefined(value, `parameter '${name}' was not provided`));
      return value;
    });
    // A default sees every argument, of parameters behind its own, too.
    for (const [index, { name, fallback }] of signature.parameters.entries()) {
      if (given[index] === undefined && fallback !== null) scope.set(name, fallback(scope));
    }
    takeMore(signature, scope, args.positional.slice(signature.parameters.length), keywords);
    return capture(body, scope);
  });
}

function takeMore(signature: Signature, scope: Scope, positional: readonly Value[], keywords: Dict): void {
  if (signature.takesMore) {
    scope.set('varargs', tuple(...positional));
    scope.set('kwargs', keywords);
  } else if (positional.length > 0 || keywords.size > 0) {
    const which = keywords.size > 0 ? `keyword argument '${[...keywords.keys()][0]}'` : 'so many arguments';
    throw new TemplateError(`macro '${signature.name}' takes no ${which}`);
  }
}

/** `{% call(parameters) callee(args) %}body{% endcall %}`: the callee may render the body with caller(). */
export function callBlock(
  callee: Expression,
  args: ArgumentList,
  signature: Signature,
  body: Statement,
): Statement {
  return plain((scope, output) => {
    const given = evaluateArguments(args, scope);
    const caller = (inner: Arguments): Value => renderMacro(signature, body, inner, scope);
    const keywords = new Map(given.keywords).set('caller', caller);
    output.write(print(callValue(callee(scope), { positional: given.positional, keywords })));
  });
}
