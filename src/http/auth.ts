// Authenticates and names callers: bearer keys, compared in constant time.

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { UnauthorizedError } from '../errors.ts';

/** What machines ask, and what says how to ask, needs no key, and the page asks for one; every other path does, even one that has no route. */
const OPEN_ROUTES = new Set([
  '/',
  '/health',
  '/ping',
  '/load',
  '/metrics',
  '/version',
  '/openapi.json',
  '/docs',
]);
const SCHEME = /^bearer /i;
/** A caller's name: a digest of its key, or its IP address. */
export const CALLER_NAME = /^(key:[\w-]{43}|address:[\w.:%-]{2,64})$/;

interface GuardedRequest {
  readonly method: string;
  /** Pattern of the route that will answer, undefined where there is none: an escaped path has the same route. */
  readonly route: string | undefined;
  readonly authorization: string | undefined;
}

interface Credentials {
  readonly authorization: string | undefined;
  /** IP address at the other end of the connection. */
  readonly address: string;
  /** What a trusted proxy calls its client; null where the client itself is connected. */
  readonly proxied: string | null;
}

export class ApiKeys {
  /** Hashes are of one length, whatever the keys are. */
  readonly #hashes: readonly Buffer[];
  /** By key. */
  readonly #names: ReadonlyMap<string, string>;

  /** No keys: everybody may call. */
  constructor(keys: readonly string[]) {
    this.#hashes = keys.map(sha256);
    this.#names = new Map(keys.map((key) => [key, `key:${sha256(key).toString('base64url')}`]));
  }

  /** @throws UnauthorizedError unless the request shows one of the keys or needs none. */
  check({ method, route, authorization }: GuardedRequest): void {
    if (this.#hashes.length === 0 || method === 'OPTIONS') return;
    if (route !== undefined && OPEN_ROUTES.has(route)) return;
    if (authorization === undefined) {
      throw new UnauthorizedError(
        'No API key was given: send it in the header Authorization: Bearer <key>, or x-api-key: <key>',
      );
    }
    if (!SCHEME.test(authorization)) {
      throw new UnauthorizedError('The Authorization header must have the form Bearer <key>');
    }
    if (!this.#knows(bearerOf(authorization)))
      throw new UnauthorizedError('The API key is none of the keys of this server');
  }

  /**
   * The name under which a request is counted: of its key where keys are asked for, else of its address. A key that a
   * proxy has checked comes first, since the proxy may show one of its own in place of it. To be called after `check`.
   */
  callerOf({ authorization, address, proxied }: Credentials): string {
    if (proxied?.startsWith('key:')) return proxied;
    const ownKey = this.#names.get(bearerOf(authorization ?? ''));
    return ownKey ?? proxied ?? `address:${address}`;
  }

  /** Looks at every key, so that the time does not tell which one was near. */
  #knows(key: string): boolean {
    const hash = sha256(key);
    return this.#hashes.reduce((known, candidate) => timingSafeEqual(candidate, hash) || known, false);
  }
}

/** Clients of the messages protocol show their key in a header of its own: it counts where there is no Authorization. */
export function authorizationOf({
  authorization,
  'x-api-key': key,
}: IncomingHttpHeaders): string | undefined {
  return authorization ?? (typeof key === 'string' ? `Bearer ${key}` : undefined);
}

/** Takes equally long wherever the two differ. */
export function isSameSecret(given: string, expected: string): boolean {
  return timingSafeEqual(sha256(given), sha256(expected));
}

function bearerOf(authorization: string): string {
  return authorization.replace(SCHEME, '').trim();
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
