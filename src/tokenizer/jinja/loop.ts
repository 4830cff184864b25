// `loop`: the position within a for statement, for its body.

import { bind } from './arguments.ts';
import { TemplateError } from './errors.ts';
import { type Arguments, type Attributes, isEqual, orUndefined, tuple, type Value } from './values.ts';

export class Loop implements Attributes {
  readonly kind = 'LoopContext';
  readonly #items: readonly Value[];
  readonly #depth: number;
  readonly #render: ((items: Value, depth: number) => string) | null;
  #lastChanged: Value = null;
  #hasChanged = false;
  /** Of the round, from 0. */
  index = 0;

  /** @param render renders the body for other items, where the loop is recursive. */
  constructor(
    items: readonly Value[],
    depth: number,
    render: ((items: Value, depth: number) => string) | null,
  ) {
    this.#items = items;
    this.#depth = depth;
    this.#render = render;
  }

  attribute(name: string): Value | undefined {
    const { length } = this.#items;
    switch (name) {
      case 'index':
        return this.index + 1;
      case 'index0':
        return this.index;
      case 'revindex':
        return length - this.index;
      case 'revindex0':
        return length - this.index - 1;
      case 'first':
        return this.index === 0;
      case 'last':
        return this.index === length - 1;
      case 'length':
        return length;
      case 'depth':
        return this.#depth + 1;
      case 'depth0':
        return this.#depth;
      case 'previtem':
        return this.#item(this.index - 1, 'previous');
      case 'nextitem':
        return this.#item(this.index + 1, 'next');
      case 'cycle':
        return (args) => this.#cycle(args);
      case 'changed':
        return (args) => this.#changed(args);
      default:
        return undefined;
    }
  }

  /** `loop(items)`: the same body for the items inside an item. */
  recurse(args: Arguments): Value {
    const [items = null] = bind(args, ['iterable'], 'loop()');
    if (this.#render === null) throw new TemplateError('loop() needs a for statement that is recursive');
    return this.#render(items, this.#depth + 1);
  }

  #item(index: number, which: string): Value {
    return orUndefined(this.#items[index], `there is no ${which} item`);
  }

  #cycle({ positional }: Arguments): Value {
    const chosen = positional[this.index % Math.max(1, positional.length)];
    if (chosen === undefined) throw new TemplateError('loop.cycle() needs at least one value');
    return chosen;
  }

  #changed({ positional }: Arguments): Value {
    const now = tuple(...positional);
    const isSame = this.#hasChanged && isEqual(now, this.#lastChanged);
    this.#hasChanged = true;
    this.#lastChanged = now;
    return !isSame;
  }
}
