// Decides who may call, and who is calling: bearer keys, compared so that the time taken tells nothing. The app asks it
// before it reads a body.

import { createHash, timingSafeEqual } from 'node:crypto';
import { UnauthorizedError } from '../errors.ts';

/** What machines ask needs no key; every other path does, whether there is something at it or not. */
const OPEN_ROUTES = new Set(['/health', '/ping', '/load', '/metrics', '/version']);
const SCHEME = /^bearer /i;

export interface Caller {
  readonly method: string;
  /** Pattern of the route that will answer, undefined where none will: a path in disguise has the same route. */
  readonly route: string | undefined;
  readonly authorization: string | undefined;
}

export class ApiKeys {
  /** Hashes are of one length, whatever the keys are. */
  readonly #hashes: readonly Buffer[];

  /** No keys: everybody may call. */
  constructor(keys: readonly string[]) {
    this.#hashes = keys.map(sha256);
  }

  /** @throws UnauthorizedError unless the caller shows one of the keys or needs none. */
  check(caller: Caller): void {
    if (this.#hashes.length === 0 || caller.method === 'OPTIONS') return;
    if (caller.route !== undefined && OPEN_ROUTES.has(caller.route)) return;
    if (caller.authorization === undefined) {
      throw new UnauthorizedError('No API key was given: send it in the header Authorization: Bearer <key>');
    }
    if (!SCHEME.test(caller.authorization)) {
      throw new UnauthorizedError('The Authorization header must have the form Bearer <key>');
    }
    if (!this.#knows(bearerOf(caller.authorization)))
      throw new UnauthorizedError('The API key is none of the keys of this server');
  }

  /** Whom a request is counted for: its key where keys are asked for, else the address that it came from. */
  callerOf(authorization: string | undefined, address: string): string {
    return this.#hashes.length === 0 ? address : bearerOf(authorization ?? '');
  }

  /** Looks at every key, so that the time does not tell which one was near. */
  #knows(key: string): boolean {
    const hash = sha256(key);
    return this.#hashes.reduce((known, candidate) => timingSafeEqual(candidate, hash) || known, false);
  }
}

function bearerOf(authorization: string): string {
  return authorization.replace(SCHEME, '').trim();
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
