// Options out of a YAML file: keys are flags without dashes; every error names line and column.

import { readFile } from 'node:fs/promises';
import type { Document, LineCounter, Node, Pair } from 'yaml';
import { ConfigError, messageOf } from '../errors.ts';
import { nestPath } from './dotted.ts';
import { type ForeignFlag, foreignOption } from './foreign-options.ts';
import type { GivenOption, OptionSource } from './merge.ts';
import { type OptionNames, optionName } from './option-table.ts';
import { didYouMean } from './suggest.ts';

/**
 * @param onForeign gets the keys that only other servers of the protocol have; without it they are unknown.
 * @throws ConfigError naming file, line and column.
 */
export async function readConfigFile<K extends string>(
  table: OptionNames<K>,
  path: string,
  onForeign?: (flag: ForeignFlag) => void,
): Promise<OptionSource<K>> {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new ConfigError(`--config ${path} cannot be read: ${messageOf(cause)}`, { param: 'config', cause });
  });
  const yaml = await import('yaml');
  const { isMap, isScalar, LineCounter, parseDocument } = yaml;
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const fault = document.errors[0];
  if (fault !== undefined) throw new ConfigError(`${at(path, lines, fault.pos[0])}: ${fault.message}`);
  if (document.contents === null) return new Map();
  if (!isMap(document.contents)) {
    throw new ConfigError(`${path}: expected a mapping of option names to values, such as "port: 8080"`);
  }
  const options = new Map<K, GivenOption>();
  for (const pair of document.contents.items) {
    const offset = offsetOf(pair);
    const where = at(path, lines, offset);
    const written = isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
    const value = toPlain(pair.value, document, where);
    const foreign = onForeign && foreignOption(written, value, `${where} (${written})`);
    if (foreign) {
      if (value !== null) onForeign(foreign);
      continue;
    }
    const { key, path: parts, name } = keyOf(table, written, where);
    const earlier = options.get(key);
    if (earlier !== undefined && parts.length === 0)
      throw new ConfigError(`${where}: ${name} is given twice`);
    const origin = `${where} (${name})`;
    if (value === null && table.info(key).isSecret) {
      throw new ConfigError(`${origin} has no value, which keeps nobody out: leave it out, or give it one`, {
        param: optionName(key),
      });
    }
    options.set(key, {
      value:
        parts.length === 0
          ? asWritten(pair.value, document, where, yaml)
          : nestPath(earlier?.value, parts, value),
      origin,
    });
  }
  return options;
}

type Yaml = Pick<typeof import('yaml'), 'isAlias' | 'isScalar' | 'isSeq'>;

interface YamlKey<K> {
  readonly name: string;
  readonly key: K;
  /** The keys of a dotted key after the option's own name. */
  readonly path: readonly string[];
}

function keyOf<K extends string>(table: OptionNames<K>, name: string, where: string): YamlKey<K> {
  const [head = '', ...path] = name.split('.');
  const key = table.find(head);
  if (key === null) {
    throw new ConfigError(`${where}: unknown option ${name}${didYouMean(head, table.keys.map(optionName))}`);
  }
  if (key === 'config') throw new ConfigError(`${where}: a config file cannot name another one`);
  if (path.length > 0 && table.info(key).kind.placeholder !== '<json>') {
    throw new ConfigError(`${where}: ${head} has no parts; write ${head} without .${path.join('.')}`);
  }
  return { key, path, name };
}

function at(path: string, lines: LineCounter, offset: number): string {
  const { line, col } = lines.linePos(offset);
  return `${path}:${line}:${col}`;
}

function offsetOf(pair: Pair<unknown, unknown>): number {
  const { key } = pair;
  return isNode(key) ? (key.range?.[0] ?? 0) : 0;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'range' in value;
}

/** @throws ConfigError for an alias of nothing. */
function toPlain(value: unknown, document: Document, where: string): unknown {
  try {
    return isNode(value) ? value.toJS(document) : value;
  } catch (cause) {
    throw new ConfigError(`${where}: ${messageOf(cause)}`, { cause });
  }
}

/** A word, also one of a list, is the text that is in the file, as on a command line: YAML would make 123 of the key 00123. */
function asWritten(
  value: unknown,
  document: Document,
  where: string,
  { isAlias, isScalar, isSeq }: Yaml,
): unknown {
  const named = (node: unknown) => (isAlias(node) ? node.resolve(document) : node);
  const word = (node: unknown) =>
    isScalar(node) && node.value !== null ? node.source : toPlain(node, document, where);
  const written = named(value);
  return isSeq(written) ? written.items.map((item) => word(named(item))) : word(written);
}
