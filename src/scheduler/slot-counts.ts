// How many of the engine's slots each caller and each request has: equal shares are measured in slots.

/** What a sequence is a part of: a request (its group), of a caller. */
interface SlotHolder {
  readonly caller: number;
  readonly group: number;
}

export class SlotCounts {
  readonly #byCaller: Map<number, number>;
  readonly #byGroup: Map<number, number>;

  constructor(
    byCaller: ReadonlyMap<number, number> = new Map(),
    byGroup: ReadonlyMap<number, number> = new Map(),
  ) {
    this.#byCaller = new Map(byCaller);
    this.#byGroup = new Map(byGroup);
  }

  ofCaller(caller: number): number {
    return this.#byCaller.get(caller) ?? 0;
  }

  /** Slots of the caller that has most. */
  get mostOfCaller(): number {
    return Math.max(0, ...this.#byCaller.values());
  }

  /** Slots of the request that has most. */
  get mostOfGroup(): number {
    return Math.max(0, ...this.#byGroup.values());
  }

  ofGroup(group: number): number {
    return this.#byGroup.get(group) ?? 0;
  }

  take({ caller, group }: SlotHolder): void {
    change(this.#byCaller, caller, 1);
    change(this.#byGroup, group, 1);
  }

  giveBack({ caller, group }: SlotHolder): void {
    change(this.#byCaller, caller, -1);
    change(this.#byGroup, group, -1);
  }

  copy(): SlotCounts {
    return new SlotCounts(this.#byCaller, this.#byGroup);
  }
}

/** Whoever has no slot has no entry, so the maps stay as small as the number of slots. */
function change(counts: Map<number, number>, key: number, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
