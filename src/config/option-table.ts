// What a table of options is: the one place where a command's flags, environment variables, YAML keys, defaults, checks
// and help come from. options.ts is that of svc serve, proxy-options.ts that of svc proxy.

import * as z from 'zod';
import { expecting, type Kind } from './option-kinds.ts';

interface OptionTraits {
  readonly help: string;
  /** What the help shows as default where the value itself says too little. */
  readonly defaultText?: string;
  readonly env?: string;
  /** It keeps others out: neither its variable nor its key in a file may be empty, as where what they should hold was never set. */
  readonly isSecret?: boolean;
  /** Other spellings of the flag, dashes included. */
  readonly aliases?: readonly string[];
  /** Also an option of `new LLM({ ... })`. */
  readonly isEngineOption?: boolean;
}

/** Metadata of an option. */
export interface OptionInfo extends OptionTraits {
  /** Heading under which the help shows it. */
  readonly group: string;
  readonly kind: Kind<unknown>;
  readonly fallback: unknown;
}

export type OptionRows = Readonly<Record<string, z.ZodType>>;

const infos = new Map<z.ZodType, OptionInfo>();

/** A row of a table: not given it is `fallback`. */
export function option<T>(kind: Kind<T>, fallback: T, traits: OptionTraits): z.ZodType<T> {
  const schema = expecting(kind.schema, kind.expected, fallback);
  infos.set(schema, { ...traits, kind, fallback, group: '' });
  return schema;
}

/** A row that is null where it is not given. */
export function optional<T>(
  kind: Kind<T>,
  traits: OptionTraits & { readonly defaultText: string },
): z.ZodType<T | null> {
  return option<T | null>(kind, null, traits);
}

/** Rows under one heading. */
export function group<R extends OptionRows>(heading: string, rows: R, isOfEngine = false): R {
  const defaults = { isEngineOption: isOfEngine };
  for (const row of Object.values(rows)) infos.set(row, { ...defaults, ...infoOf(row), group: heading });
  return rows;
}

/** The same where rows that do not say otherwise are options of `new LLM({ ... })`, too. */
export function engineGroup<R extends OptionRows>(heading: string, rows: R): R {
  return group(heading, rows, true);
}

function infoOf(row: z.ZodType | undefined): OptionInfo {
  const info = row === undefined ? undefined : infos.get(row);
  if (info === undefined) throw new Error('a row of a table of options was not made by option()');
  return info;
}

/** `maxModelLen` -> `max-model-len`: flag without its dashes, and key of the config file. */
export function optionName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** The checked values of a table's options. */
export type OptionTableValues<R extends OptionRows> = z.output<z.ZodObject<R>>;

export class OptionTable<R extends OptionRows> {
  readonly #rows: R;
  readonly #schema: z.ZodObject<R>;
  readonly keys: readonly (keyof R & string)[];
  readonly groups: readonly string[];

  /** @param rows every option by its camelCase name; the flag and the YAML key are the same in kebab-case. */
  constructor(rows: R) {
    this.#rows = rows;
    this.#schema = z.object(rows);
    this.keys = Object.keys(rows);
    this.groups = [...new Set(this.keys.map((key) => this.info(key).group))];
  }

  info(key: keyof R & string): OptionInfo {
    return infoOf(this.#rows[key]);
  }

  /** The key of an option written with dashes or underscores, null where there is none. */
  find(name: string): (keyof R & string) | null {
    const wanted = name.replaceAll('_', '-');
    const isMeant = (key: keyof R & string): boolean =>
      optionName(key) === wanted || this.info(key).aliases?.includes(`--${wanted}`) === true;
    return this.keys.find(isMeant) ?? null;
  }

  /** Checks raw values; keys that are not given take their default. */
  parse(raw: ReadonlyMap<string, unknown>): z.ZodSafeParseResult<OptionTableValues<R>> {
    return this.#schema.safeParse(Object.fromEntries(this.keys.map((key) => [key, raw.get(key)])));
  }
}

/** A table of which only names and traits matter, not the types of the values. */
export interface OptionNames<K extends string> {
  readonly keys: readonly K[];
  readonly groups: readonly string[];
  info(key: K): OptionInfo;
  find(name: string): K | null;
}

/** The checked values of the options of a table. */
export type ValuesOf<T> = T extends OptionTable<infer R> ? Readonly<OptionTableValues<R>> : never;
