// A grammar as an automaton over bytes. A state is the set of points at which the text may be, one for each way to read it;
// states and their transitions are made when they are first needed and kept.

import type { Grammar } from './grammar.ts';
import { Lexer } from './lexer.ts';
import { type Kept, Meter } from './meter.ts';
import { bottomFrame, type Configuration, type Frame, StackMachine } from './stack.ts';

/** Ways to read one text that are followed side by side; the first ones, where there are more. */
const MAX_CONFIGURATIONS = 1024;
/** States, frames and configurations that are kept, some 200 bytes each. */
const MAX_KEPT = 20_000;
/** Of a point of a text that goes on by a byte, and of one that becomes a part of a state: in the steps of a meter. */
const STEP_WORK = 5;
const STATE_WORK = 20;

export interface State {
  /** Points at which the bytes so far have led, and those where what was written may have ended. */
  readonly configurations: readonly Configuration[];
  /** The text may end here. */
  readonly isComplete: boolean;
  /** By byte; null where no text goes on like this. */
  readonly next: Map<number, Kept<State | null>>;
  /** As `onlyByte`; null until it is first asked for. */
  only: Kept<number | null> | null;
  readonly home: Home;
}

/** States that are kept together: a sequence stays among those in which it began. */
interface Home {
  readonly bottom: Frame;
  /** By their points. */
  readonly states: Map<string, State>;
  start: Kept<State> | null;
}

function newHome(): Home {
  return { bottom: bottomFrame(), states: new Map(), start: null };
}

export class ByteAutomaton {
  readonly lexer: Lexer;
  readonly machine: StackMachine;
  readonly meter = new Meter();
  #home = newHome();
  #ids = new WeakMap<Configuration, number>();
  #numIds = 0;

  constructor(grammar: Grammar) {
    this.lexer = new Lexer(grammar);
    this.machine = new StackMachine(grammar, this.lexer, this.meter);
  }

  /** What it costs is part of what is measured, as with all that follow. */
  start(): State {
    return this.begin().value;
  }

  begin(): Kept<State> {
    this.#forgetWhereTooMany();
    const home = this.#home;
    return this.#keptOr(
      home.start,
      () => {
        const steps = this.machine.start(home.bottom);
        const configurations = steps.filter((step) => step !== 'end');
        return this.state(configurations, steps.length > configurations.length, home);
      },
      (made) => {
        home.start = made;
      },
    );
  }

  /** Null where no text goes on with this byte. */
  step(state: State, byte: number): State | null {
    return this.transition(state, byte).value;
  }

  transition(state: State, byte: number): Kept<State | null> {
    return this.#keptOr(
      state.next.get(byte) ?? null,
      () => this.#goOn(state, byte),
      (made) => state.next.set(byte, made),
    );
  }

  #keptOr<T>(known: Kept<T> | null, find: () => T, keep: (made: Kept<T>) => void): Kept<T> {
    if (known !== null) {
      this.meter.need(known.part);
      return known;
    }
    const made = this.meter.keep(find);
    keep(made);
    return made;
  }

  #goOn(state: State, byte: number): State | null {
    const reached: Configuration[] = [];
    this.meter.spend(state.configurations.length * STEP_WORK);
    for (const { lexeme, state: from, stack } of state.configurations) {
      const next = this.lexer.lexeme(lexeme).step(from, byte, this.machine.openKeys(lexeme, stack));
      if (next >= 0) reached.push(this.machine.configuration(lexeme, next, stack));
    }
    return reached.length === 0 ? null : this.state(reached, false, state.home);
  }

  /** The byte that must come next; null where there is a choice, or the text may end. */
  onlyByte(state: State): number | null {
    return this.#keptOr(
      state.only,
      () => this.#findOnlyByte(state),
      (made) => {
        state.only = made;
      },
    ).value;
  }

  #findOnlyByte(state: State): number | null {
    this.meter.spend(state.configurations.length * STEP_WORK);
    if (state.isComplete) return null;
    let only: number | null = null;
    for (let byte = 0; byte < 256; byte += 1) {
      if (!this.#goesOn(state, byte)) continue;
      if (only !== null) return null;
      only = byte;
    }
    return only;
  }

  #goesOn({ configurations }: State, byte: number): boolean {
    return configurations.some(({ lexeme, state, stack }) => {
      const open = this.machine.openKeys(lexeme, stack);
      return this.lexer.lexeme(lexeme).step(state, byte, open) >= 0;
    });
  }

  /** The state of a text that has come to these points, or has ended. */
  state(reached: readonly Configuration[], hasEnded: boolean, home: Home): State {
    const all = new Set(reached);
    let isComplete = hasEnded;
    // A set that grows while it is read: a lexeme that may be empty is passed over.
    for (const { lexeme, state, stack } of all) {
      const label = this.lexer.lexeme(lexeme).label(state);
      if (label < 0 || !isOpen(this.machine.openKeys(lexeme, stack), label)) continue;
      for (const step of this.machine.after(stack, label)) {
        if (step === 'end') isComplete = true;
        else if (all.size < MAX_CONFIGURATIONS) all.add(step);
      }
    }
    const configurations = [...all];
    this.meter.spend(configurations.length * STATE_WORK);
    // In the order in which they were found, so that the first ones do not depend on other sequences.
    const key = `${isComplete}${configurations.map((configuration) => this.#id(configuration)).join()}`;
    const known = home.states.get(key);
    if (known !== undefined) return known;
    this.machine.numMade += 1;
    const made: State = { configurations, isComplete, next: new Map(), only: null, home };
    home.states.set(key, made);
    return made;
  }

  #id(configuration: Configuration): number {
    const known = this.#ids.get(configuration);
    if (known !== undefined) return known;
    this.#numIds += 1;
    this.#ids.set(configuration, this.#numIds);
    return this.#numIds;
  }

  /** Sequences that are under way keep the states that they hold. */
  #forgetWhereTooMany(): void {
    if (this.machine.numMade < MAX_KEPT) return;
    this.machine.numMade = 0;
    this.#home = newHome();
  }
}

export function isOpen(open: Uint32Array | null, label: number): boolean {
  return open === null || ((open[label >>> 5]! >>> (label & 31)) & 1) === 1;
}
