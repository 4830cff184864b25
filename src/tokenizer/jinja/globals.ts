// The names that every chat template may use, apart from those of the request.

import { strftime } from '../strftime.ts';
import { bind, builtin, integerOf, textOf } from './arguments.ts';
import { Cycler } from './cycler.ts';
import { TemplateError, TemplateRefusal } from './errors.ts';
import { checkRange } from './limits.ts';
import { print } from './print.ts';
import type { Scope } from './scope.ts';
import {
  type Arguments,
  type Callable,
  type Dict,
  iterate,
  keyOf,
  Namespace,
  typeName,
  type Value,
} from './values.ts';

/** @param now what strftime_now() tells. */
export function defineGlobals(scope: Scope, now: Date): void {
  scope.set('tools', null);
  scope.set('documents', null);
  scope.set('range', range);
  scope.set('dict', dict);
  scope.set('namespace', (args) => new Namespace(dict(args)));
  scope.set('joiner', joiner);
  scope.set('cycler', ({ positional }) => new Cycler(positional));
  scope.set(
    'raise_exception',
    define('raise_exception()', ['message'], (message = null) => {
      throw new TemplateRefusal(print(message));
    }),
  );
  scope.set(
    'strftime_now',
    define('strftime_now()', ['format'], (format = '') => strftime(now, textOf(format, 'the format'))),
  );
}

function define(
  what: string,
  names: readonly string[],
  call: (...args: (Value | undefined)[]) => Value,
): Callable {
  const apply = builtin(what, names, (_, ...args) => call(...args));
  return (args) => apply(null, args);
}

const range: Callable = (args) => {
  const [first = null, second, third = 1] = bind(args, ['start', 'stop', 'step'], 'range()');
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  const [from, to, step] = [start, stop, third].map((bound) =>
    integerOf(bound ?? null, 'a bound of range()'),
  );
  if (step === 0) throw new TemplateError('range() arg 3 must not be zero');
  const length = Math.max(0, Math.ceil((to! - from!) / step!));
  checkRange(length);
  return Array.from({ length }, (_, index) => from! + index * step!);
};

/** dict(mapping or pairs, name=value). */
function dict({ positional, keywords }: Arguments): Dict {
  const made: Dict = new Map();
  const [source] = positional;
  if (source instanceof Map) for (const [key, value] of source) made.set(key, value);
  else if (source !== undefined) {
    for (const pair of iterate(source)) {
      if (!Array.isArray(pair) || pair.length !== 2) {
        throw new TemplateError(`dict() needs pairs, got a '${typeName(pair)}'`);
      }
      made.set(keyOf(pair[0]!), pair[1]!);
    }
  }
  for (const [name, value] of keywords) made.set(name, value);
  return made;
}

/** joiner(): nothing at the first call, its separator at all others. */
const joiner: Callable = (args) => {
  const [separator = ', '] = bind(args, ['sep'], 'joiner()');
  let isFirst = true;
  return () => {
    const text = isFirst ? '' : separator;
    isFirst = false;
    return text;
  };
};
