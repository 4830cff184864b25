// The order in which requests are served: the more urgent first, then the earlier. The scheduler is its only caller.

import type { Request } from './request.ts';

/** Negative where `a` goes before `b`: a lower priority number, or an earlier arrival among equals. */
export function compareUrgency(a: Request, b: Request): number {
  return a.priority - b.priority || a.arrival - b.arrival;
}

/** Requests that wait for a seat. A preempted one finds its old place again: its arrival has not changed. */
export class RequestQueue {
  readonly #requests: Request[] = [];

  get length(): number {
    return this.#requests.length;
  }

  /** The next one to be served. */
  get first(): Request | null {
    return this.#requests[0] ?? null;
  }

  add(request: Request): void {
    let low = 0;
    let high = this.#requests.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareUrgency(this.#requests[middle]!, request) < 0) low = middle + 1;
      else high = middle;
    }
    this.#requests.splice(low, 0, request);
  }

  remove(request: Request): void {
    this.#requests.splice(this.#requests.indexOf(request), 1);
  }
}
