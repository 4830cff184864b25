// The one table of options as command-line flags: what commander is told, and what it read as a source of options.

import { type Command, Option } from 'commander';
import { nestPath, partValue } from '../config/dotted.ts';
import type { GivenOption, OptionSource } from '../config/merge.ts';
import { findOption, OPTION_KEYS, type OptionKey, optionInfo, optionName } from '../config/options.ts';
import { ConfigError } from '../errors.ts';

/** A dotted flag, `--attention-config.backend CPU_ATTN`: the option, the steps behind it, and the text. */
interface DottedFlag {
  readonly key: OptionKey;
  readonly path: readonly string[];
  readonly text: string;
}

export interface SplitArguments {
  /** What commander may read: flags in their first spelling, dotted ones taken out. */
  readonly args: readonly string[];
  readonly dotted: readonly DottedFlag[];
}

/** Underscores count as dashes, aliases as the flag itself; parts of JSON options are put aside. */
export function splitArguments(argv: readonly string[]): SplitArguments {
  const args: string[] = [];
  const dotted: DottedFlag[] = [];
  const queue = [...argv];
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    if (arg === '--') return { args: [...args, arg, ...queue], dotted };
    const part = dottedFlag(arg);
    if (part === null) args.push(canonical(arg));
    else dotted.push({ ...part, text: part.text ?? takeValue(queue) });
  }
  return { args, dotted };
}

/** A part without a value is a flag: true. */
function takeValue(queue: string[]): string {
  const next = queue[0];
  if (next === undefined || next.startsWith('--')) return 'true';
  queue.shift();
  return next;
}

function dottedFlag(arg: string): { key: OptionKey; path: string[]; text: string | null } | null {
  const match = /^(-ac|--[\w-]+)\.([^=]+)(?:=(.*))?$/s.exec(arg);
  const key = match === null ? null : findOption(canonical(match[1] ?? '').slice(2));
  if (match === null || key === null || optionInfo(key).kind.placeholder !== '<json>') return null;
  return { key, path: (match[2] ?? '').split('.'), text: match[3] ?? null };
}

function canonical(arg: string): string {
  const [, name = '', rest = ''] = /^(-[^=]*)(=.*)?$/s.exec(arg) ?? [];
  if (name === '') return arg;
  const dashed = name.startsWith('--') ? name.replaceAll('_', '-') : name;
  const key = OPTION_KEYS.find((known) => optionInfo(known).aliases?.includes(dashed));
  return (key === undefined ? dashed : `--${optionName(key)}`) + rest;
}

/** Adds every option to `command`, under the headings of the table. */
export function addOptions(command: Command): void {
  for (const key of OPTION_KEYS) {
    const { kind, group, aliases = [] } = optionInfo(key);
    const flag = `--${optionName(key)}`;
    const short = aliases.filter((alias) => !alias.startsWith('--'));
    const takes = kind.placeholder === null ? '' : ` ${placeholder(key)}`;
    const option = new Option(flag + takes, helpText(key, short)).helpGroup(`${group}:`);
    // Commander only collects: checks and defaults are the same for flags, environment and file.
    if (takes !== '') option.argParser((value: string, before?: string[]) => [...(before ?? []), value]);
    command.addOption(option.hideHelp(key === 'model'));
    if (kind.placeholder === null) command.addOption(new Option(`--no-${optionName(key)}`).hideHelp());
  }
}

function placeholder(key: OptionKey): string {
  return optionInfo(key).kind.placeholder?.replace(/^\[|\]$/g, '') ?? '';
}

function helpText(key: OptionKey, aliases: readonly string[]): string {
  const { help, env, kind } = optionInfo(key);
  const notes = [
    ...(kind.expected.startsWith('one of ') ? [kind.expected] : []),
    defaultText(key),
    ...(env === undefined ? [] : [`env: ${env}`]),
    ...aliases.map((alias) => `or: ${alias}`),
  ];
  return `${help} (${notes.filter(Boolean).join('; ')})`.replace(' ()', '');
}

/** What the help says about the default: nothing for a flag that is off. */
export function defaultText(key: OptionKey): string {
  const { fallback, defaultText: words } = optionInfo(key);
  if (words === undefined && fallback === false) return '';
  return `default: ${words ?? String(fallback)}`;
}

/**
 * What the command line gives.
 * @param model the argument of the command, if there is one
 * @throws ConfigError for an option that is given twice with different values.
 */
export function flagOptions(
  opts: Readonly<Record<string, unknown>>,
  dotted: readonly DottedFlag[],
  model: string | undefined,
): OptionSource {
  const found = new Map<OptionKey, GivenOption>();
  for (const key of OPTION_KEYS) {
    const value = opts[key];
    if (value === undefined) continue;
    found.set(key, { value: oneValue(key, value), origin: `--${optionName(key)}` });
  }
  for (const { key, path, text } of dotted) {
    const value = nestPath(found.get(key)?.value, path, partValue(text));
    found.set(key, { value, origin: `--${optionName(key)}` });
  }
  if (model === undefined) return found;
  const named = found.get('model');
  if (named !== undefined && named.value !== model) {
    throw new ConfigError(
      `the model is given twice, as ${model} and as --model ${String(named.value)}: give it once, behind svc serve`,
      { param: 'model' },
    );
  }
  return found.set('model', { value: model, origin: 'model' });
}

function oneValue(key: OptionKey, value: unknown): unknown {
  if (!Array.isArray(value) || optionInfo(key).kind.takesSeveral) return value;
  const different = [...new Set(value)];
  if (different.length > 1) {
    throw new ConfigError(
      `--${optionName(key)} is given twice, as ${different.join(' and as ')}: give it once`,
      {
        param: optionName(key),
      },
    );
  }
  return different[0];
}
