// The keys of a terminal while the program runs: typed text is not echoed, and text typed while nobody listens waits for
// the next prompt, as in a shell.

import { constants } from 'node:os';
import { emitKeypressEvents, type Key } from 'node:readline';
import type { ReadStream, WriteStream } from 'node:tty';

/** A key, or a text that was pasted at once. */
export type Typed =
  | { readonly kind: 'key'; readonly text: string | undefined; readonly key: Key }
  | { readonly kind: 'paste'; readonly text: string };

interface KeyListener {
  typed(typed: Typed): void;
  /** The screen may show anything: the program was stopped and goes on. */
  resumed(): void;
}

/** Keys that may wait for a listener; more were typed by accident. */
const MAX_WAITING = 1000;
const MAX_PASTE_LENGTH = 1 << 20;

/** Terminals then say where a pasted text begins and ends. */
const PASTE_MARKS_ON = '\x1b[?2004h';
const PASTE_MARKS_OFF = '\x1b[?2004l';

const ENDING_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export class Keyboard {
  readonly #input: ReadStream;
  readonly #output: WriteStream;
  readonly #waiting: Typed[] = [];
  #listener: KeyListener | null = null;
  /** Interrupts the running task; null where there is none. */
  #onInterrupt: (() => void) | null = null;
  /** What of a pasted text has come; null outside of one. */
  #paste: string | null = null;

  /** @param output the same terminal. */
  constructor(input: ReadStream, output: WriteStream) {
    this.#input = input;
    this.#output = output;
    emitKeypressEvents(input);
    input.on('keypress', this.#onKey);
    input.resume();
    this.#take();
    process.on('exit', this.#giveBack);
    for (const signal of ENDING_SIGNALS) process.on(signal, endProcess);
  }

  /** Passes keys to `listener`, waiting ones first, until it is removed. */
  listen(listener: KeyListener): void {
    this.#listener = listener;
    while (this.#listener === listener) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      listener.typed(next);
    }
  }

  unlisten(): void {
    this.#listener = null;
  }

  /** Ctrl-C, while nobody listens, breaks `work` off. */
  async interruptible(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const abort = new AbortController();
    this.#onInterrupt = () => abort.abort();
    try {
      await work(abort.signal);
    } finally {
      this.#onInterrupt = null;
    }
  }

  close(): void {
    this.#giveBack();
    this.#input.off('keypress', this.#onKey).pause();
    process.off('exit', this.#giveBack);
    for (const signal of ENDING_SIGNALS) process.off(signal, endProcess);
  }

  readonly #onKey = (text: string | undefined, key: Key): void => {
    if (key.ctrl && key.name === 'c') this.#paste = null;
    if (key.ctrl && key.name === 'z') this.#suspend();
    else if (key.name === 'paste-start') this.#paste = '';
    else if (this.#paste === null) this.#deliver({ kind: 'key', text, key });
    else if (key.name !== 'paste-end')
      this.#paste = (this.#paste + (key.sequence ?? '')).slice(0, MAX_PASTE_LENGTH);
    else {
      const pasted = this.#paste;
      this.#paste = null;
      this.#deliver({ kind: 'paste', text: pasted });
    }
  };

  #deliver(typed: Typed): void {
    if (this.#listener !== null) this.#listener.typed(typed);
    else if (isInterrupt(typed) && this.#onInterrupt !== null) {
      // As a terminal does it: an interrupt discards the keys typed before it.
      this.#waiting.length = 0;
      this.#onInterrupt();
    } else if (this.#waiting.length < MAX_WAITING) this.#waiting.push(typed);
  }

  /** Ctrl-Z: the shell gets the terminal, and the program goes on when the shell says so. */
  #suspend(): void {
    this.#giveBack();
    process.once('SIGCONT', () => {
      this.#take();
      this.#listener?.resumed();
    });
    process.kill(process.pid, 'SIGTSTP');
  }

  #take(): void {
    this.#input.setRawMode(true);
    this.#output.write(PASTE_MARKS_ON);
  }

  readonly #giveBack = (): void => {
    this.#output.write(PASTE_MARKS_OFF);
    this.#input.setRawMode(false);
  };
}

export function isInterrupt(typed: Typed): boolean {
  return typed.kind === 'key' && typed.key.ctrl === true && typed.key.name === 'c';
}

/** The handlers of `exit` put the terminal in order first. */
function endProcess(signal: (typeof ENDING_SIGNALS)[number]): void {
  process.exit(128 + constants.signals[signal]);
}
