// The order in which requests get seats: the more urgent first. Of one priority the callers take turns, and of each caller
// its groups, so that nobody waits behind all that somebody else has sent; within a group the earlier goes first. What
// had to give up its blocks finds its old place in its group, and where nothing else of it waits, it is next.

import type { Request } from './request.ts';

/** Requests that wait for a seat. */
export class RequestQueue {
  /** One a priority that somebody waits with, the most urgent first. */
  readonly #levels: Turns[] = [];
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The next one to be served. */
  get first(): Request | null {
    return this.#levels[0]?.first ?? null;
  }

  add(request: Request): void {
    this.#length += 1;
    this.#levelOf(request).add(request);
  }

  /** Takes out the one that gets a seat: its caller and its group have had their turn. */
  serve(request: Request): void {
    this.#levelOf(request).pass(request);
    this.remove(request);
  }

  /** Takes out one that will not be served: nobody's turn changes. */
  remove(request: Request): void {
    const level = this.#levelOf(request);
    level.remove(request);
    if (level.first === null) this.#levels.splice(this.#levels.indexOf(level), 1);
    this.#length -= 1;
  }

  #levelOf({ priority }: Request): Turns {
    const found = this.#levels.find((level) => level.priority === priority);
    if (found !== undefined) return found;
    const level = new Turns(priority);
    this.#levels.push(level);
    this.#levels.sort((a, b) => a.priority - b.priority);
    return level;
  }
}

/** A Map keeps its order: the first is next, and whoever joins or has been served is last. */
type Ring<T> = Map<number, T>;

/** Requests of one priority, in the order of arrival within their groups. */
class Turns {
  readonly priority: number;
  readonly #callers: Ring<Ring<Request[]>> = new Map();

  constructor(priority: number) {
    this.priority = priority;
  }

  get first(): Request | null {
    const groups = firstOf(this.#callers);
    const group = groups && firstOf(groups);
    return group?.[0] ?? null;
  }

  add(request: Request): void {
    const groups = memberOf(this.#callers, request.caller, request, (): Ring<Request[]> => new Map());
    const group = memberOf(groups, request.group, request, (): Request[] => []);
    group.splice(group.findLastIndex(({ arrival }) => arrival < request.arrival) + 1, 0, request);
  }

  pass({ caller, group }: Request): void {
    moveToEnd(moveToEnd(this.#callers, caller), group);
  }

  /** Callers and groups that nothing is left of lose their place. */
  remove(request: Request): void {
    const { caller, group } = request;
    const groups = this.#callers.get(caller)!;
    const members = groups.get(group)!;
    members.splice(members.indexOf(request), 1);
    if (members.length === 0) groups.delete(group);
    if (groups.size === 0) this.#callers.delete(caller);
  }
}

/** The member `key`; one that is not there joins at the end, for what was preempted at the beginning. */
function memberOf<T>(ring: Ring<T>, key: number, { state }: Request, make: () => T): T {
  const known = ring.get(key);
  if (known !== undefined) return known;
  const others = state === 'preempted' ? [...ring.keys()] : [];
  const made = make();
  ring.set(key, made);
  for (const other of others) moveToEnd(ring, other);
  return made;
}

function firstOf<T>(ring: Ring<T>): T | undefined {
  const [first] = ring.values();
  return first;
}

function moveToEnd<T>(ring: Ring<T>, key: number): T {
  const member = ring.get(key)!;
  ring.delete(key);
  ring.set(key, member);
  return member;
}
