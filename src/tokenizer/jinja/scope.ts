// Where names are looked up while a template renders, and where its output goes.

import { checkTextLength, depthError, MAX_DEPTH } from './limits.ts';
import type { Value } from './values.ts';

/** Names of a template, a loop, a macro or a block; other names are looked up in the parent. */
export class Scope {
  readonly #names = new Map<string, Value>();
  readonly #parent: Scope | null;
  readonly #run: { depth: number };

  constructor(parent: Scope | null = null) {
    this.#parent = parent;
    this.#run = parent === null ? { depth: 0 } : parent.#run;
  }

  get(name: string): Value | undefined {
    for (let scope: Scope | null = this; scope !== null; scope = scope.#parent) {
      const value = scope.#names.get(name);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  set(name: string, value: Value): void {
    this.#names.set(name, value);
  }

  get size(): number {
    return this.#names.size;
  }

  clear(): void {
    this.#names.clear();
  }

  /** @throws LimitError where scopes of this kind are nested too deep. */
  deeper<T>(work: () => T): T {
    if (this.#run.depth >= MAX_DEPTH) throw depthError();
    this.#run.depth += 1;
    try {
      return work();
    } finally {
      this.#run.depth -= 1;
    }
  }
}

export class Output {
  text = '';

  write(text: string): void {
    checkTextLength(this.text.length + text.length);
    this.text += text;
  }
}
