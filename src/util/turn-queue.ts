// A queue in which callers take turns: before the next item of one caller comes one of each other, however many it has brought.

export class TurnQueue<Item> {
  /** By caller: whose turn is next is the first. */
  readonly #items = new Map<string, Item[]>();

  /** Callers that wait, with this one. */
  numCallersWith(caller: string): number {
    return this.#items.size + (this.#items.has(caller) ? 0 : 1);
  }

  /** What this caller has brought. */
  of(caller: string): readonly Item[] {
    return this.#items.get(caller) ?? [];
  }

  /** Those of each caller in their order, one caller after the other. */
  *[Symbol.iterator](): Generator<Item, void, undefined> {
    for (const items of this.#items.values()) yield* items;
  }

  add(caller: string, item: Item): void {
    const own = this.#items.get(caller);
    if (own === undefined) this.#items.set(caller, [item]);
    else own.push(item);
  }

  /** Takes the next item out; undefined where there is none. */
  take(): Item | undefined {
    for (const [caller, items] of this.#items) {
      const item = items.shift();
      this.#items.delete(caller);
      if (items.length > 0) this.#items.set(caller, items);
      return item;
    }
    return undefined;
  }

  /** Takes one of the items out. */
  remove(caller: string, item: Item): void {
    const rest = (this.#items.get(caller) ?? []).filter((one) => one !== item);
    if (rest.length > 0) this.#items.set(caller, rest);
    else this.#items.delete(caller);
  }
}
