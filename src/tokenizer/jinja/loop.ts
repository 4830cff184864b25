// `loop`: the position within a for statement, for its body.

import { bind } from './arguments.ts';
import { TemplateError } from './errors.ts';
import { type Arguments, type Attributes, isEqual, orUndefined, tuple, type Value } from './values.ts';

export class Loop implements Attributes {
  static readonly #attributes: ReadonlyMap<string, (loop: Loop) => Value> = new Map<
    string,
    (loop: Loop) => Value
  >([
    ['index', (loop) => loop.index + 1],
    ['index0', (loop) => loop.index],
    ['revindex', (loop) => loop.#items.length - loop.index],
    ['revindex0', (loop) => loop.#items.length - loop.index - 1],
    ['first', (loop) => loop.index === 0],
    ['last', (loop) => loop.index === loop.#items.length - 1],
    ['length', (loop) => loop.#items.length],
    ['depth', (loop) => loop.#depth + 1],
    ['depth0', (loop) => loop.#depth],
    ['previtem', (loop) => loop.#item(loop.index - 1, 'previous')],
    ['nextitem', (loop) => loop.#item(loop.index + 1, 'next')],
    ['cycle', (loop) => (args) => loop.#cycle(args)],
    ['changed', (loop) => (args) => loop.#changed(args)],
  ]);

  readonly kind = 'LoopContext';
  readonly #items: readonly Value[];
  readonly #depth: number;
  readonly #render: ((items: Value, depth: number) => string) | null;
  #lastChanged: Value = null;
  #hasChanged = false;
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
    return Loop.#attributes.get(name)?.(this);
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
