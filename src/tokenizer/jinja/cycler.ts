// cycler(): values that take turns, for as long as a template asks for the next one.

import { TemplateError } from './errors.ts';
import type { Attributes, Callable, Value } from './values.ts';

export class Cycler implements Attributes {
  readonly kind = 'Cycler';
  readonly #items: readonly Value[];
  #position = 0;

  constructor(items: readonly Value[]) {
    if (items.length === 0) throw new TemplateError('cycler() needs at least one value');
    this.#items = items;
  }

  attribute(name: string): Value | undefined {
    if (name === 'current') return this.#items[this.#position];
    if (name === 'next') return this.#next;
    return name === 'reset' ? this.#reset : undefined;
  }

  readonly #next: Callable = () => {
    const current = this.#items[this.#position]!;
    this.#position = (this.#position + 1) % this.#items.length;
    return current;
  };

  readonly #reset: Callable = () => {
    this.#position = 0;
    return null;
  };
}
