// Takes the flags of other servers out of a command line, each with what belongs to it, before it is read.

import type { FindForeign, ForeignFlag, ForeignOption } from '../config/foreign-options.ts';
import { ConfigError } from '../errors.ts';
import { isSwitch } from './flags.ts';

interface WithoutForeign {
  readonly argv: readonly string[];
  readonly foreign: readonly ForeignFlag[];
}

/** @throws ConfigError for a flag whose value is missing. */
export function takeForeignFlags(argv: readonly string[], find: FindForeign): WithoutForeign {
  const own: string[] = [];
  const foreign: ForeignFlag[] = [];
  const queue = [...argv];
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    if (arg === '--') return { argv: [...own, arg, ...queue], foreign };
    const [, name = '', part = '', text] = /^(--?[A-Za-z][\w-]*)((?:\.[^=]+)?)(?:=(.*))?$/s.exec(arg) ?? [];
    const found = find(name);
    if (found === null || (part !== '' && found.option.takes !== 'json')) {
      own.push(arg);
      continue;
    }
    const { option, isNegated } = found;
    const value = isNegated ? 'false' : (text ?? takeValue(option, name + part, queue));
    foreign.push({ option, origin: name + part, value });
  }
  return { argv: own, foreign };
}

function takeValue({ takes }: ForeignOption, flag: string, queue: string[]): string {
  // Older releases of other servers had a value behind some of these.
  if (takes === 'nothing' && !isSwitch(queue[0])) return 'true';
  const end = queue.findIndex(isFlag);
  const numValues = Math.min(takes === 'values' ? queue.length : 1, end === -1 ? queue.length : end);
  // A part of a JSON option without a value is a flag.
  if (numValues === 0 && flag.includes('.')) return 'true';
  if (numValues === 0) throw new ConfigError(`${flag} needs a value`, { param: flag.replace(/^-+/, '') });
  return queue.splice(0, numValues).join(' ');
}

/** A negative number is a value. */
function isFlag(arg: string): boolean {
  return /^-\D/.test(arg);
}
