// What --structured-outputs-config asks for, checked. The fields are those of vLLM; there is one engine for all constraints here, so
// that which of theirs is named does not matter.

import * as z from 'zod';
import { ConfigError, NotAvailableError } from '../errors.ts';
import { zodMessage } from '../util/zod-message.ts';
import { expecting } from './option-kinds.ts';
import { didYouMean } from './suggest.ts';

/** What counts for the JSON of all requests, beside what they ask for themselves. */
export interface StructuredOutputsConfig {
  /** No whitespace between the parts of JSON. */
  readonly disableAnyWhitespace: boolean;
  /** Objects have no properties but those that their schema names, unless it says otherwise. */
  readonly disableAdditionalProperties: boolean;
}

const OPTION = 'structured-outputs-config';
const BACKENDS: readonly string[] = ['auto', 'xgrammar', 'guidance', 'outlines', 'lm-format-enforcer'];
/** Fields of the protocol that must ask for nothing here, and what to do otherwise. */
const OTHER_FIELDS: Readonly<
  Record<string, { readonly neutral: readonly unknown[]; readonly instead: string }>
> = {
  reasoning_parser: { neutral: [''], instead: 'use --reasoning-parser' },
  enable_in_reasoning: { neutral: [false], instead: 'leave it out: what a model thinks is free' },
};

const isWanted = () => expecting(z.boolean(), 'true or false', false);
const Fields = z.object({
  backend: expecting(
    z.string().refine((name) => BACKENDS.includes(name)),
    `one of ${BACKENDS.join(', ')}`,
    'auto',
  ),
  // There is nothing to fall back to.
  disable_fallback: isWanted(),
  disable_any_whitespace: isWanted(),
  disable_additional_properties: isWanted(),
});

/**
 * Reads the JSON of --structured-outputs-config.
 * @throws ConfigError naming the field, what is wrong with it and the fix.
 * @throws NotAvailableError for what this version does not support.
 */
export function parseStructuredOutputsConfig(
  json: Readonly<Record<string, unknown>> | null,
): StructuredOutputsConfig {
  const given = Object.entries(json ?? {}).filter(([, value]) => value !== null && value !== undefined);
  const known = Object.keys(Fields.shape);
  for (const [name, value] of given) {
    const other = OTHER_FIELDS[name];
    if (other?.neutral.includes(value) === false)
      throw new NotAvailableError(`--${OPTION}: ${name} is not supported: ${other.instead}`, {
        param: OPTION,
      });
    if (other === undefined && !known.includes(name))
      throw new ConfigError(`--${OPTION}: ${name}: unknown field${didYouMean(name, known)}`, {
        param: OPTION,
      });
  }
  const fields = Object.fromEntries(given);
  const parsed = Fields.safeParse(Object.fromEntries(known.map((name) => [name, fields[name]])));
  if (!parsed.success)
    throw new ConfigError(`--${OPTION}: ${zodMessage(parsed.error, fields, '')}`, { param: OPTION });
  return {
    disableAnyWhitespace: parsed.data.disable_any_whitespace,
    disableAdditionalProperties: parsed.data.disable_additional_properties,
  };
}
