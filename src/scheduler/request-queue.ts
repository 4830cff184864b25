// The order in which waiting requests get slots: the more urgent first. Of equal priority, the caller with the fewest
// slots is next, and of its requests (groups of samples) the one with the fewest, so that nobody waits for all that
// somebody else has sent; where these are equal, they take turns. Samples of one group keep their order of arrival.
// A preempted sample returns to its old position in its group, and a group that has left the queue returns to its front.

import type { Request } from './request.ts';
import type { SlotCounts } from './slot-counts.ts';

/** Requests that wait for a slot. */
export class RequestQueue {
  readonly #slots: SlotCounts;
  /** One for each priority that some request waits with, the most urgent first. */
  readonly #levels: Level[] = [];
  #length = 0;
  #numTokens = 0;

  constructor(slots: SlotCounts) {
    this.#slots = slots;
  }

  get length(): number {
    return this.#length;
  }

  /** Of all that wait. */
  get numTokens(): number {
    return this.#numTokens;
  }

  /** The next one to be admitted. */
  get first(): Request | null {
    return this.#levels[0]?.first ?? null;
  }

  /** Of each caller and priority the next request, where its group has no slot; callers with fewer slots first. */
  firstWithoutSlot(): Request[] {
    return this.#levels.flatMap((level) => level.firstWithoutSlot());
  }

  /** How many requests are before `request`, the next one of its caller and priority. */
  numAheadOf({ priority, caller }: Request): number {
    const levels = this.#levels.filter((level) => level.priority <= priority);
    return levels.reduce(
      (sum, level) => sum + (level.priority === priority ? level.numAheadOf(caller) : level.length),
      0,
    );
  }

  add(request: Request): void {
    this.#length += 1;
    this.#numTokens += request.tokens.length;
    this.#levelOf(request).add(request);
  }

  /** Takes out one that is admitted: its caller and its group have had their turn. */
  admit(request: Request): void {
    this.#levelOf(request).endTurn(request);
    this.remove(request);
  }

  /** Takes out one that is not admitted: turns do not change. */
  remove(request: Request): void {
    const level = this.#levelOf(request);
    level.remove(request);
    if (level.first === null) this.#levels.splice(this.#levels.indexOf(level), 1);
    this.#length -= 1;
    this.#numTokens -= request.tokens.length;
  }

  #levelOf({ priority }: Request): Level {
    const found = this.#levels.find((level) => level.priority === priority);
    if (found !== undefined) return found;
    const level = new Level(priority, this.#slots);
    this.#levels.push(level);
    this.#levels.sort((a, b) => a.priority - b.priority);
    return level;
  }
}

/** A Map keeps its order: of those with equally many slots the first is next; whoever joins or has had a turn is last. */
type Ring<T> = Map<number, T>;

/** Requests of one priority, in the order of arrival within their groups. */
class Level {
  readonly priority: number;
  readonly #slots: SlotCounts;
  readonly #callers: Ring<Ring<Request[]>> = new Map();

  constructor(priority: number, slots: SlotCounts) {
    this.priority = priority;
    this.#slots = slots;
  }

  get first(): Request | null {
    const caller = fewest(this.#callers.keys(), (key) => this.#slots.ofCaller(key));
    return caller === null ? null : this.#firstOf(caller);
  }

  get length(): number {
    return [...this.#callers.values()].reduce((sum, groups) => sum + numWaiting(groups), 0);
  }

  firstWithoutSlot(): Request[] {
    const slotsOf = (caller: number): number => this.#slots.ofCaller(caller);
    return [...this.#callers.keys()]
      .sort((a, b) => slotsOf(a) - slotsOf(b))
      .map((caller) => this.#firstOf(caller))
      .filter(({ group }) => this.#slots.ofGroup(group) === 0);
  }

  /** Another caller is served until it has as many slots; one that has as many, once, where it is next. */
  numAheadOf(caller: number): number {
    let sum = 0;
    let turn = 1;
    for (const [other, groups] of this.#callers) {
      if (other === caller) {
        turn = 0;
        continue;
      }
      const lead = this.#slots.ofCaller(caller) - this.#slots.ofCaller(other);
      sum += Math.min(numWaiting(groups), lead === 0 ? turn : Math.max(0, lead));
    }
    return sum;
  }

  add(request: Request): void {
    const groups = memberOf(this.#callers, request.caller, request, (): Ring<Request[]> => new Map());
    const group = memberOf(groups, request.group, request, (): Request[] => []);
    group.splice(group.findLastIndex(({ arrival }) => arrival < request.arrival) + 1, 0, request);
  }

  endTurn({ caller, group }: Request): void {
    moveToEnd(moveToEnd(this.#callers, caller), group);
  }

  /** Callers and groups that nothing is left of lose their position. */
  remove(request: Request): void {
    const { caller, group } = request;
    const groups = this.#callers.get(caller)!;
    const members = groups.get(group)!;
    members.splice(members.indexOf(request), 1);
    if (members.length === 0) groups.delete(group);
    if (groups.size === 0) this.#callers.delete(caller);
  }

  #firstOf(caller: number): Request {
    const groups = this.#callers.get(caller)!;
    return groups.get(fewest(groups.keys(), (key) => this.#slots.ofGroup(key))!)![0]!;
  }
}

/** The first of those with the lowest count; null where there are none. */
function fewest(keys: Iterable<number>, countOf: (key: number) => number): number | null {
  let best: number | null = null;
  let lowest = Number.POSITIVE_INFINITY;
  for (const key of keys) {
    const count = countOf(key);
    if (count === 0) return key;
    if (count >= lowest) continue;
    best = key;
    lowest = count;
  }
  return best;
}

function numWaiting(groups: Ring<Request[]>): number {
  return [...groups.values()].reduce((sum, members) => sum + members.length, 0);
}

/** The member `key`; one that is not there joins at the end, that of a preempted request at the beginning. */
function memberOf<T>(ring: Ring<T>, key: number, { state }: Request, make: () => T): T {
  const known = ring.get(key);
  if (known !== undefined) return known;
  const others = state === 'preempted' ? [...ring.keys()] : [];
  const made = make();
  ring.set(key, made);
  for (const other of others) moveToEnd(ring, other);
  return made;
}

function moveToEnd<T>(ring: Ring<T>, key: number): T {
  const member = ring.get(key)!;
  ring.delete(key);
  ring.set(key, member);
  return member;
}
