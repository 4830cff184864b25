import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Request } from '../../src/scheduler/request.ts';
import { RequestQueue } from '../../src/scheduler/request-queue.ts';
import { SlotCounts } from '../../src/scheduler/slot-counts.ts';
import { newRequest } from '../helpers/new-request.ts';

/** Few of each, so that they meet. */
const anyWaiting = fc.array(
  fc.record({
    caller: fc.nat(3),
    group: fc.nat(3),
    priority: fc.integer({ min: -1, max: 1 }),
    isPreempted: fc.boolean(),
  }),
  { minLength: 1, maxLength: 40 },
);

interface Parts {
  readonly caller?: number;
  readonly group?: number;
  readonly priority?: number;
  readonly isPreempted?: boolean;
}

function requestOf({ caller = 0, group = 0, priority = 0, isPreempted = false }: Parts, id: number): Request {
  // Groups are the callers' own.
  const request = new Request(newRequest({ id, caller, group: caller * 10 + group, priority }), id);
  if (isPreempted) {
    request.moveTo('running');
    request.moveTo('preempted');
  }
  return request;
}

function queueOf(requests: readonly Request[], slots = new SlotCounts()): RequestQueue {
  const queue = new RequestQueue(slots);
  for (const request of requests) queue.add(request);
  return queue;
}

function serveAll(queue: RequestQueue): Request[] {
  const served: Request[] = [];
  for (let next = queue.first; next !== null; next = queue.first) {
    queue.admit(next);
    served.push(next);
  }
  return served;
}

function idsOf(requests: readonly Request[]): number[] {
  return requests.map(({ id }) => id);
}

/** The most that any other of `members` was served between two of one of them, while that one waited. */
function mostBetween(served: readonly Request[], memberOf: (request: Request) => number): number {
  let most = 0;
  for (const member of new Set(served.map(memberOf))) {
    const others = new Map<number, number>();
    const last = served.findLastIndex((request) => memberOf(request) === member);
    for (const request of served.slice(0, last)) {
      const name = memberOf(request);
      if (name === member) others.clear();
      else others.set(name, (others.get(name) ?? 0) + 1);
      most = Math.max(most, ...others.values());
    }
  }
  return most;
}

describe('RequestQueue', () => {
  it('serves one caller of one request in the order of arrival', () => {
    const requests = Array.from({ length: 9 }, (_, id) => requestOf({}, id));
    expect(idsOf(serveAll(queueOf(requests)))).toEqual(idsOf(requests));
  });

  it('serves a caller who comes late with one request second, however many another one has sent', () => {
    const queue = queueOf(Array.from({ length: 100 }, (_, id) => requestOf({ caller: 1 }, id)));
    queue.add(requestOf({ caller: 2 }, 100));
    expect(idsOf(serveAll(queue)).indexOf(100)).toBe(1);
  });

  it('serves a request that comes behind one of many samples of the same caller second', () => {
    const queue = queueOf(Array.from({ length: 100 }, (_, id) => requestOf({ group: 1 }, id)));
    queue.add(requestOf({ group: 2 }, 100));
    expect(idsOf(serveAll(queue)).indexOf(100)).toBe(1);
  });

  it('puts a caller who keeps coming back behind those who have waited meanwhile', () => {
    const queue = queueOf([1, 1, 1, 2].map((caller, id) => requestOf({ caller }, id)));
    const served: number[] = [];
    for (let id = 4; served.length < 6; id += 1) {
      const next = queue.first!;
      queue.admit(next);
      served.push(next.caller);
      if (next.caller === 2) queue.add(requestOf({ caller: 2 }, id));
    }
    expect(served).toEqual([1, 2, 1, 2, 1, 2]);
  });

  it('lets every caller have a turn before any has a second one, and so with the requests of each', () => {
    fc.assert(
      fc.property(anyWaiting, (parts) => {
        const fresh = parts.map((part, id) => requestOf({ ...part, priority: 0, isPreempted: false }, id));
        const served = serveAll(queueOf(fresh));
        expect(mostBetween(served, ({ caller }) => caller)).toBeLessThanOrEqual(1);
        for (const caller of [0, 1, 2, 3]) {
          const own = served.filter((request) => request.caller === caller);
          expect(mostBetween(own, ({ group }) => group)).toBeLessThanOrEqual(1);
        }
      }),
    );
  });

  it('serves all, the more urgent first, and each group in the order of arrival', () => {
    fc.assert(
      fc.property(anyWaiting, (parts) => {
        const requests = parts.map(requestOf);
        const served = serveAll(queueOf(requests));
        expect(idsOf(served).sort((a, b) => a - b)).toEqual(idsOf(requests));
        for (const [at, request] of served.entries()) {
          for (const later of served.slice(at + 1)) {
            expect(later.priority).toBeGreaterThanOrEqual(request.priority);
            const isSame = request.caller === later.caller && request.group === later.group;
            if (isSame && later.priority === request.priority) expect(request.id).toBeLessThan(later.id);
          }
        }
      }),
    );
  });

  it('serves the caller with the fewest slots, and of its requests the one with the fewest, whatever was served before', () => {
    const anySlots = fc.array(fc.record({ caller: fc.nat(3), group: fc.nat(3) }), {
      maxLength: 30,
    });
    fc.assert(
      fc.property(anyWaiting, anySlots, (parts, held) => {
        const slots = new SlotCounts();
        for (const { caller, group } of held) slots.take({ caller, group: caller * 10 + group });
        const waiting = new Set(parts.map((part, id) => requestOf({ ...part, priority: 0 }, id)));
        const queue = queueOf([...waiting], slots);
        for (let next = queue.first; next !== null; next = queue.first) {
          for (const other of waiting) {
            expect(slots.ofCaller(next.caller)).toBeLessThanOrEqual(slots.ofCaller(other.caller));
            if (other.caller !== next.caller) continue;
            expect(slots.ofGroup(next.group)).toBeLessThanOrEqual(slots.ofGroup(other.group));
          }
          queue.admit(next);
          slots.take(next);
          waiting.delete(next);
        }
        expect(waiting.size).toBe(0);
      }),
    );
  });

  it('names of each caller the next request that has no slot', () => {
    const slots = new SlotCounts();
    slots.take({ caller: 1, group: 10 });
    slots.take({ caller: 2, group: 20 });
    slots.take({ caller: 2, group: 21 });
    const of = (caller: number, group: number, id: number): Request => requestOf({ caller, group }, id);
    // In this order: all samples of requests with slots, then two of callers with some, then one of a new caller.
    const queue = queueOf(
      [of(2, 0, 0), of(1, 0, 1), of(2, 2, 2), of(2, 3, 3), of(1, 1, 4), of(3, 0, 5)],
      slots,
    );
    expect(idsOf(queue.firstWithoutSlot())).toEqual([5, 4, 2]);
  });

  it('tells how many requests of its priority are admitted before the next one of a caller', () => {
    const anySlots = fc.array(fc.nat(3), { maxLength: 12 });
    fc.assert(
      fc.property(anyWaiting, anySlots, fc.nat(39), (parts, held, at) => {
        const slots = new SlotCounts();
        for (const caller of held) slots.take({ caller, group: caller * 10 });
        const requests = parts.map((part, id) => requestOf({ ...part, priority: 0 }, id));
        const queue = queueOf(requests, slots);
        const { caller } = requests[at % requests.length]!;
        const isOfCaller = (request: Request): boolean => request.caller === caller;
        const told = queue.numAheadOf(requests.find(isOfCaller)!);
        let numAhead = 0;
        for (let next = queue.first!; !isOfCaller(next); next = queue.first!) {
          queue.admit(next);
          slots.take(next);
          numAhead += 1;
        }
        expect(told).toBe(numAhead);
      }),
    );
  });

  it('serves what was preempted first, at its old place among others that were', () => {
    fc.assert(
      fc.property(fc.nat(8), fc.nat(8), (numPreempted, numFresh) => {
        const requests = Array.from({ length: numPreempted + numFresh }, (_, id) =>
          requestOf({ group: id, isPreempted: id < numPreempted }, id),
        );
        const fresh = requests.slice(numPreempted);
        // The latest gives way first.
        const preempted = requests.slice(0, numPreempted).reverse();
        expect(idsOf(serveAll(queueOf([...fresh, ...preempted])))).toEqual(idsOf(requests));
      }),
    );
  });

  it('serves a caller who waits second, however much of another one was preempted', () => {
    const queue = queueOf([requestOf({ caller: 2 }, 100)]);
    for (let id = 99; id >= 0; id -= 1) queue.add(requestOf({ caller: 1, isPreempted: true }, id));
    expect(idsOf(serveAll(queue)).slice(0, 3)).toEqual([0, 100, 1]);
  });

  it('leaves the turns of the others as they are when one is taken out', () => {
    fc.assert(
      fc.property(anyWaiting, fc.array(fc.nat(39)), (parts, leaving) => {
        const requests = parts.map(requestOf);
        const gone = new Set(leaving.flatMap((at) => requests[at] ?? []));
        const queue = queueOf(requests);
        for (const request of gone) queue.remove(request);
        expect(queue.length).toBe(requests.length - gone.size);
        expect(idsOf(serveAll(queue)).sort((a, b) => a - b)).toEqual(
          idsOf(requests.filter((request) => !gone.has(request))),
        );
        expect([queue.length, queue.first]).toEqual([0, null]);
      }),
    );
  });
});
