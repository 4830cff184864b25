// Which instances there are and which of them can take a request. A timer notices those that have fallen silent.

import type { RegistrationMessage } from '../cluster/discovery-message.ts';
import { MAX_INSTANCES, type ProxyDeadlines } from './deadlines.ts';
import { Instance, type InstanceFailed, type InstanceState, UpstreamFailure } from './instance.ts';

interface InstanceEvents {
  readonly changed: (instance: Instance, state: InstanceState) => void;
  readonly failed: InstanceFailed;
  readonly forgotten: (instance: Instance) => void;
}

export class Instances {
  readonly #deadlines: ProxyDeadlines;
  readonly #events: InstanceEvents;
  /** By HTTP address, in the order in which they first came. */
  readonly #known = new Map<string, Instance>();
  readonly #timer: NodeJS.Timeout;
  #sweptAt = performance.now();
  #numRuns = 0;
  #numOrdinals = 0;

  constructor(deadlines: ProxyDeadlines, events: InstanceEvents) {
    this.#deadlines = deadlines;
    this.#events = events;
    this.#timer = setInterval(() => this.#sweep(), deadlines.sweep).unref();
  }

  /** Those that have just left included. */
  get all(): readonly Instance[] {
    return [...this.#known.values()];
  }

  /** Those that take requests, in stable order. */
  ready(isWanted: (instance: Instance) => boolean): Instance[] {
    const found: Instance[] = [];
    for (const instance of this.#known.values()) {
      if (instance.state === 'ready' && isWanted(instance)) found.push(instance);
    }
    return found;
  }

  /** Those that were given up so recently that they may only have been late. */
  missed(isWanted: (instance: Instance) => boolean): Instance[] {
    const { expiry, late } = this.#deadlines;
    const since = performance.now() - expiry - late;
    return this.all.filter((instance) => instance.isMissed && instance.seenAt > since && isWanted(instance));
  }

  /** False: there is no room for one more. */
  register(message: RegistrationMessage): boolean {
    const known = this.#known.get(message.http_address);
    if (known?.isSameRun(message)) {
      const before = known.state;
      known.heartbeat(message);
      if (known.state !== before) this.#events.changed(known, known.state);
      return true;
    }
    if (message.state === 'gone' || known?.isEarlierRun(message)) return true;
    if (known === undefined && this.#known.size >= MAX_INSTANCES && !this.#forgetOneGone()) return false;
    if (known !== undefined) this.#replace(known);
    const identity = {
      ordinal: known?.ordinal ?? this.#numOrdinals++,
      run: this.#numRuns++,
      earlierEpochs: known?.epochsSoFar ?? [],
    };
    const instance = new Instance(message, identity, this.#deadlines.connect, this.#events.failed);
    this.#known.set(message.http_address, instance);
    this.#events.changed(instance, instance.state);
    return true;
  }

  close(): void {
    clearInterval(this.#timer);
    for (const instance of this.#known.values()) instance.close();
  }

  /** An earlier run is dead: requests to it will not be answered. */
  #replace(earlier: Instance): void {
    if (earlier.state !== 'gone') this.#leave(earlier);
    earlier.failSilent(Number.POSITIVE_INFINITY, new UpstreamFailure('the instance was restarted'));
    earlier.close();
  }

  #leave(instance: Instance): void {
    instance.state = 'gone';
    this.#events.changed(instance, 'gone');
  }

  #forgetOneGone(): boolean {
    for (const [address, { state, openRequests }] of this.#known) {
      if (state === 'gone' && openRequests.size === 0) return this.#forget(address);
    }
    return false;
  }

  #forget(address: string): boolean {
    const instance = this.#known.get(address);
    if (instance === undefined) return false;
    instance.close();
    this.#events.forgotten(instance);
    return this.#known.delete(address);
  }

  #sweep(): void {
    const { late, expiry, sweep, remember } = this.#deadlines;
    const now = performance.now();
    // Time for which this process itself was suspended does not count as silence of the instances, but for those that were heard
    // before this.
    const stall = Math.max(0, now - this.#sweptAt - 4 * sweep);
    this.#sweptAt = now;
    for (const [address, instance] of this.#known) {
      instance.seenAt = Math.min(now, instance.seenAt + stall);
      for (const request of instance.openRequests) {
        request.movedAt = Math.min(now, request.movedAt + stall);
        request.checkSilence(now);
      }
      const silence = now - instance.seenAt;
      if (silence > late) instance.isSuspect = true;
      if (silence > expiry && instance.state !== 'gone') {
        instance.isMissed = true;
        this.#leave(instance);
      }
      if (instance.state !== 'gone' || silence <= expiry) continue;
      instance.failSilent(now - late, new UpstreamFailure('the instance has fallen silent'));
      if (silence > remember && instance.openRequests.size === 0) {
        this.#forget(address);
      }
    }
  }
}
