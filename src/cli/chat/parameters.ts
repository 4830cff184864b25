// The sampling parameters that a person sets in a conversation: all others keep the default of the model or the server.

import { didYouMean } from '../../config/suggest.ts';
import { InvalidRequestError } from '../../errors.ts';
import { parseSamplingFields } from '../../sampling/sampling-fields.ts';
import { resolveSamplingParams } from '../../sampling/sampling-params.ts';

/** Those that change one answer of text and nothing of its form. */
const NAMES = [
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'seed',
  'max_tokens',
  'min_tokens',
  'presence_penalty',
  'frequency_penalty',
  'repetition_penalty',
  'stop',
] as const;

/** In the place of a value: unset. */
export const DEFAULT = 'default';

export class Parameters {
  #fields: Readonly<Record<string, unknown>> = {};

  get fields(): Readonly<Record<string, unknown>> {
    return this.#fields;
  }

  get maxTokens(): number | null {
    const { max_tokens: value } = this.#fields;
    return typeof value === 'number' ? value : null;
  }

  /** @param text of the value: JSON, or plain words. @throws InvalidRequestError where name or value is wrong. */
  set(name: string, text: string): void {
    const { [name]: _before, ...others } = this.#fields;
    this.replace(text === DEFAULT && isKnown(name) ? others : { ...others, [name]: readValue(text) });
  }

  /** @throws InvalidRequestError where one of them is wrong; all are then as before. */
  replace(fields: Readonly<Record<string, unknown>>): void {
    const unknown = Object.keys(fields).find((name) => !isKnown(name));
    if (unknown !== undefined) {
      const names = NAMES.join(', ');
      throw new InvalidRequestError(
        `there is no parameter ${unknown}${didYouMean(unknown, NAMES)} (there are ${names})`,
      );
    }
    resolveSamplingParams(parseSamplingFields(fields));
    this.#fields = fields;
  }

  list(): string[] {
    const width = Math.max(...NAMES.map((name) => name.length));
    return NAMES.map((name) => {
      const value = this.#fields[name];
      return `${name.padEnd(width)}  ${value === undefined ? DEFAULT : JSON.stringify(value)}`;
    });
  }
}

function isKnown(name: string): boolean {
  return NAMES.some((known) => known === name);
}

function readValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
