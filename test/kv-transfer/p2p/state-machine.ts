// A state machine of a transfer in the hands of a test: events in, state and effects out, and a clock.

import { expect } from 'vitest';

type Kind = { readonly kind: string };

/** Milliseconds, of a process that has run for longer than any deadline. */
export const NOW = 1_000_000;

export class StateMachine<State extends { readonly phase: string }, Event extends Kind, Effect extends Kind> {
  state: State;
  /** Of the last event. */
  effects: readonly Effect[] = [];
  /** Milliseconds. */
  now = NOW;
  readonly #reduce: (state: State, event: Event, now: number) => [State, readonly Effect[]];

  constructor(state: State, reduce: (state: State, event: Event, now: number) => [State, readonly Effect[]]) {
    this.state = state;
    this.#reduce = reduce;
  }

  on(...events: readonly Event[]): this {
    for (const event of events) [this.state, this.effects] = this.#reduce(this.state, event, this.now);
    return this;
  }

  after(ms: number): this {
    this.now += ms;
    return this;
  }

  get kinds(): Effect['kind'][] {
    return this.effects.map(({ kind }) => kind);
  }
}

/**
 * Makes a check of one event in each of `states`: phase, then effects, of those in `outcomes`; in all others the phase
 * stays and nothing follows.
 */
export function transitionsOf<
  Name extends string,
  State extends { readonly phase: string },
  Event extends Kind,
  Effect extends Kind,
>(states: Readonly<Record<Name, () => StateMachine<State, Event, Effect>>>) {
  type Outcomes = Readonly<Partial<Record<Name, readonly [State['phase'], ...Effect['kind'][]]>>>;
  return (event: Event, outcomes: Outcomes): void => {
    for (const name of Object.keys(states) as Name[]) {
      const machine = states[name]();
      const { phase } = machine.state;
      const found = [machine.on(event).state.phase, ...machine.kinds];
      expect(found, `${name} x ${event.kind}`).toEqual(outcomes[name] ?? [phase]);
    }
  };
}
