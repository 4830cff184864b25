// The token that a hub knows its caller by: of the environment, or of a login of the hub's own tools.

import { readFileSync } from 'node:fs';
import { headerSecret } from '../util/header-secret.ts';
import type { TokenAdvice } from './model-hub.ts';

export class HubToken implements TokenAdvice {
  readonly variable: string;
  /** Null where there is none. */
  readonly value: string | null;
  /** What gives it. */
  readonly #origin: string;

  /** @param file where a login has left it: the variable wins over it. */
  constructor(env: NodeJS.ProcessEnv, variable: string, file: string) {
    const given = env[variable]?.trim() || null;
    this.variable = variable;
    this.value = given ?? savedToken(file);
    this.#origin = given === null ? file : variable;
  }

  get isGiven(): boolean {
    return this.value !== null;
  }

  /** @throws ConfigError where no request can carry it. */
  check(): void {
    headerSecret(this.#origin, this.value ?? '');
  }
}

function savedToken(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim() || null;
  } catch {
    return null;
  }
}
