// The responses that clients may come back to: bounded in number, bytes and age, the oldest leave first. Nobody finds those of
// another key.

import type { Item } from './items.ts';
import type { ResponseObject } from './response-object.ts';

export interface StoreLimits {
  readonly maxResponses: number;
  readonly maxBytes: number;
  readonly maxAgeMs: number;
}

const LIMITS: StoreLimits = {
  maxResponses: 10_000,
  maxBytes: 256 * 1024 * 1024,
  maxAgeMs: 24 * 60 * 60 * 1000,
};

export interface StoredResponse {
  readonly response: ResponseObject;
  /** All that the model was told: earlier responses and what they were told included. */
  readonly input: readonly Item[];
  /** About, of `response` and `input` in memory. */
  readonly numBytes: number;
}

interface Entry extends StoredResponse {
  readonly storedAt: number;
}

export class ResponseStore {
  readonly #limits: StoreLimits;
  readonly #now: () => number;
  /** By owner and id, the oldest first. */
  readonly #entries = new Map<string, Entry>();
  #numBytes = 0;

  /** @param now milliseconds of a clock that never goes back. */
  constructor(limits: Partial<StoreLimits> = {}, now: () => number = () => performance.now()) {
    this.#limits = { ...LIMITS, ...limits };
    this.#now = now;
  }

  get size(): number {
    return this.#entries.size;
  }

  get numBytes(): number {
    return this.#numBytes;
  }

  /** Replaces what has the same id. What is larger than the store is not kept. */
  put(owner: string, stored: StoredResponse): void {
    const { maxResponses, maxBytes } = this.#limits;
    const key = keyOf(owner, stored.response.id);
    this.#remove(key);
    if (stored.numBytes > maxBytes) return;
    this.#entries.set(key, { ...stored, storedAt: this.#now() });
    this.#numBytes += stored.numBytes;
    this.#dropExpired();
    for (const oldest of this.#entries.keys()) {
      if (this.size <= maxResponses && this.#numBytes <= maxBytes) break;
      this.#remove(oldest);
    }
  }

  get(owner: string, id: string): StoredResponse | null {
    this.#dropExpired();
    return this.#entries.get(keyOf(owner, id)) ?? null;
  }

  delete(owner: string, id: string): void {
    this.#remove(keyOf(owner, id));
  }

  #dropExpired(): void {
    const oldestKept = this.#now() - this.#limits.maxAgeMs;
    for (const [key, { storedAt }] of this.#entries) {
      if (storedAt >= oldestKept) return;
      this.#remove(key);
    }
  }

  #remove(key: string): void {
    this.#numBytes -= this.#entries.get(key)?.numBytes ?? 0;
    this.#entries.delete(key);
  }
}

/** Neither holds a space. */
function keyOf(owner: string, id: string): string {
  return `${owner} ${id}`;
}
