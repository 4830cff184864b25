// Keys and tokens that go into headers: what a header cannot carry is found before it is sent, and never shown.

import { ConfigError } from '../errors.ts';

export const HEADER_SECRET = /^[\x21-\x7e]+$/;

/**
 * Without the white space around it, which files of secrets end with; empty is no secret, and stays so.
 * @param name of the variable or file that it comes from
 * @throws ConfigError where a header cannot carry it.
 */
export function headerSecret(name: string, secret: string): string {
  const trimmed = secret.trim();
  if (trimmed === '' || HEADER_SECRET.test(trimmed)) return trimmed;
  throw new ConfigError(
    `${name} has a character that a header cannot carry, such as a line break, a blank or a letter with an accent: copy it anew`,
    { param: name },
  );
}
