// A table of options as command-line flags: what commander is told, and what it read as a source of options.

import { existsSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { nestPath, partValue } from '../config/dotted.ts';
import type { GivenOption, OptionSource } from '../config/merge.ts';
import { type OptionInfo, type OptionNames, optionName } from '../config/option-table.ts';
import { ConfigError } from '../errors.ts';
import { parseModelName } from '../hub/model-name.ts';
import { isGgufPath } from '../util/model-file.ts';

/** A dotted flag, `--attention-config.backend CPU_ATTN`: the option, the keys after it, and the text. */
interface DottedFlag<K extends string> {
  readonly key: K;
  readonly path: readonly string[];
  readonly text: string;
}

export interface SplitArguments<K extends string> {
  /** What commander may read: flags in their first spelling, dotted ones taken out. */
  readonly args: readonly string[];
  readonly dotted: readonly DottedFlag<K>[];
}

/**
 * Underscores count as dashes, aliases as the flag itself; parts of JSON options are put aside.
 * @throws ConfigError for a flag without a value that is given one.
 */
export function splitArguments<K extends string>(
  table: OptionNames<K>,
  argv: readonly string[],
): SplitArguments<K> {
  const args: string[] = [];
  const dotted: DottedFlag<K>[] = [];
  const queue = [...argv];
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    if (arg === '--') return { args: [...args, arg, ...queue], dotted };
    expectNoValue(table, arg, queue[0]);
    const part = dottedFlag(table, arg);
    if (part === null) args.push(canonical(table, arg));
    else dotted.push({ ...part, text: part.text ?? takeValue(queue) });
  }
  return { args, dotted };
}

/** Other programs take `--flag false`; here `false` would be the model. */
function expectNoValue<K extends string>(table: OptionNames<K>, arg: string, next: string | undefined): void {
  const [, name = '', text] = /^--([\w-]+)(?:=(.*))?$/s.exec(arg) ?? [];
  const key = table.find(name.replace(/^no[-_]/, ''));
  if (key === null || table.info(key).kind.placeholder !== null) return;
  const value = text ?? (isSwitch(next) ? next : undefined);
  if (value === undefined) return;
  const flag = optionName(key);
  throw new ConfigError(
    `--${flag} takes no value, got "${value}": write --${flag} to turn it on, --no-${flag} to turn it off`,
    { param: flag },
  );
}

/** Whether `text` is a value that turns a flag on or off. */
export function isSwitch(text: string | undefined): text is string {
  return text !== undefined && /^(true|false)$/i.test(text);
}

/** A part without a value is a flag: true. */
function takeValue(queue: string[]): string {
  const next = queue[0];
  if (next === undefined || next.startsWith('--')) return 'true';
  queue.shift();
  return next;
}

function dottedFlag<K extends string>(
  table: OptionNames<K>,
  arg: string,
): { key: K; path: string[]; text: string | null } | null {
  const match = /^(-ac|--[\w-]+)\.([^=]+)(?:=(.*))?$/s.exec(arg);
  const key = match === null ? null : table.find(canonical(table, match[1] ?? '').slice(2));
  if (match === null || key === null || table.info(key).kind.placeholder !== '<json>') return null;
  return { key, path: (match[2] ?? '').split('.'), text: match[3] ?? null };
}

function canonical<K extends string>(table: OptionNames<K>, arg: string): string {
  const [, name = '', rest = ''] = /^(-[^=]*)(=.*)?$/s.exec(arg) ?? [];
  if (name === '') return arg;
  const dashed = name.startsWith('--') ? name.replaceAll('_', '-') : name;
  const key = table.keys.find((known) => table.info(known).aliases?.includes(dashed));
  return (key === undefined ? dashed : `--${optionName(key)}`) + rest;
}

/** Adds every option to `command`, under the headings of the table. */
export function addOptions<K extends string>(table: OptionNames<K>, command: Command): void {
  for (const key of table.keys) {
    const info = table.info(key);
    const { kind, group, aliases = [] } = info;
    const flag = `--${optionName(key)}`;
    const short = aliases.filter((alias) => !alias.startsWith('--'));
    const takes = kind.placeholder === null ? '' : ` ${placeholder(info)}`;
    const option = new Option(flag + takes, helpText(info, short)).helpGroup(`${group}:`);
    // Commander only collects: checks and defaults are the same for flags, environment and file.
    if (takes !== '') {
      option.argParser((value: string, before: string[] = []) => {
        expectValue(table, flag, value);
        return [...before, value];
      });
    }
    command.addOption(option.hideHelp(key === 'model'));
    if (kind.placeholder === null) command.addOption(new Option(`--no-${optionName(key)}`).hideHelp());
  }
}

/**
 * Commander takes whatever comes next: where a variable of the shell is empty, that is the next option.
 * @throws ConfigError where the value is an option of the table.
 */
function expectValue<K extends string>(table: OptionNames<K>, flag: string, value: string): void {
  const [, name = ''] = /^--(?:no-)?([a-z][a-z-]*)(?:=|$)/.exec(value) ?? [];
  if (name === '' || table.find(name) === null) return;
  throw new ConfigError(`${flag} needs a value, and behind it comes ${value.split('=')[0]}`, {
    param: flag.slice(2),
  });
}

/** Reads a number of a command that has no table of options. */
export function wholeNumber(least: number, most = Number.POSITIVE_INFINITY): (text: string) => number {
  const range = Number.isFinite(most) ? `from ${least} to ${most}` : `of at least ${least}`;
  return (text) => {
    const value = Number(text);
    if (/^(0|[1-9]\d*)$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`expected a whole number ${range}`);
  };
}

/** Reads the address of a server that a command asks. */
export function httpUrl(example: string): (text: string) => string {
  return (text) => {
    if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
    throw new InvalidArgumentError(`expected an address such as ${example}`);
  };
}

function placeholder({ kind }: OptionInfo): string {
  return kind.placeholder?.replace(/^\[|\]$/g, '') ?? '';
}

function helpText(info: OptionInfo, aliases: readonly string[]): string {
  const { help, env, kind } = info;
  const notes = [
    ...(kind.expected.startsWith('one of ') ? [kind.expected] : []),
    defaultText(info),
    ...(env === undefined ? [] : [`env: ${env}`]),
    ...aliases.map((alias) => `or: ${alias}`),
  ];
  return `${help} (${notes.filter(Boolean).join('; ')})`.replace(' ()', '');
}

/** What the help says about the default: nothing for a flag that is off. */
function defaultText({ fallback, defaultText: words }: OptionInfo): string {
  if (words === undefined && fallback === false) return '';
  return `default: ${words ?? String(fallback)}`;
}

/**
 * What the command line gives.
 * @throws ConfigError for an option that is given twice with different values.
 */
export function flagOptions<K extends string>(
  table: OptionNames<K>,
  opts: Readonly<Record<string, unknown>>,
  dotted: readonly DottedFlag<K>[] = [],
): OptionSource<K> {
  const found = new Map<K, GivenOption>();
  for (const key of table.keys) {
    const value = opts[key];
    if (value === undefined) continue;
    found.set(key, { value: oneValue(table, key, value), origin: `--${optionName(key)}` });
  }
  for (const { key, path, text } of dotted) {
    const value = nestPath(found.get(key)?.value, path, partValue(text));
    found.set(key, { value, origin: `--${optionName(key)}` });
  }
  return found;
}

/**
 * `flags` of a command that runs a model with the argument of the command, if there is one.
 * @throws ConfigError where --model names another one, and where an option has taken the argument.
 */
export function withModel(flags: OptionSource, model: string | undefined): OptionSource {
  const named = flags.get('model');
  if (model === undefined) {
    if (named === undefined && !flags.has('config')) expectModelNotTaken(flags);
    return flags;
  }
  if (named !== undefined && named.value !== model) {
    throw new ConfigError(
      `the model is given twice, as ${model} and as --model ${String(named.value)}: give it once, without --model`,
      { param: 'model' },
    );
  }
  return new Map([...flags, ['model', { value: model, origin: 'model' }]]);
}

/** An option of several values takes all that follow it: the small chat model would run, and the name of the other be a key. */
function expectModelNotTaken(flags: OptionSource): void {
  for (const { value, origin } of flags.values()) {
    if (!Array.isArray(value) || value.length < 2 || !looksLikeModel(String(value.at(-1)))) continue;
    throw new ConfigError(
      `${origin} takes all values behind it, and the last one looks like the model: name the model before ${origin}, ` +
        'or by --model',
      { param: 'model' },
    );
  }
}

/** A path, or a name on a hub with its owner. */
function looksLikeModel(text: string): boolean {
  if (!text.includes('/')) return isGgufPath(text);
  return /^\.{0,2}\//.test(text) || parseModelName(text) !== null || existsSync(text);
}

function oneValue<K extends string>(table: OptionNames<K>, key: K, value: unknown): unknown {
  if (!Array.isArray(value) || table.info(key).kind.takesSeveral) return value;
  const different = [...new Set(value)];
  if (different.length > 1) {
    throw new ConfigError(
      `--${optionName(key)} is given twice, as ${different.join(' and as ')}: give it once`,
      { param: optionName(key) },
    );
  }
  return different[0];
}
