// Who may bring how much to the engine. A client's request takes places in it, as many as samples it may have there at
// once: never all seats, however many samples it has. The places are bounded; when they are taken, a caller who has less
// than an equal share of them is still let in, and of the share of one caller a request that takes less than an equal
// part, so that neither a heavy caller nor a heavy request locks the others out.

import { OverloadedError } from '../errors.ts';
import { DrainRate } from './drain-rate.ts';
import type { EndedSample } from './sample-times.ts';
import { SampleWindow } from './sample-window.ts';

export interface AdmissionLimits {
  /** Of all engines together. */
  readonly maxNumSeqs: number;
  readonly maxQueuedRequests: number;
  /** Of the prompts of all that run and wait, each as often as it has places; left out, 2^26. */
  readonly maxPromptTokens?: number;
}

/** A waiting sequence keeps its prompt in the heap of the engine's thread, 16 bytes a token: a gigabyte. */
const MAX_PROMPT_TOKENS = 2 ** 26;

/** A client's request that has been let in, until `close`. */
export interface Ticket {
  readonly caller: number;
  readonly group: number;
  readonly window: SampleWindow;
  /** Of the engine that the client has named; null where any may compute it. */
  readonly rank: number | null;
  /** Is told of each sample of the request. */
  readonly onSampleEnded: (sample: EndedSample) => void;
  close(): void;
}

interface OpenOptions extends Partial<Pick<Ticket, 'onSampleEnded' | 'rank'>> {
  readonly numTokens?: number;
}

interface Caller {
  readonly id: number;
  numPlaces: number;
  numTickets: number;
  /** Of prompts, each as often as it has places. */
  numTokens: number;
}

const NOBODY = { numPlaces: 0, numTickets: 0, numTokens: 0 };

export class Admission {
  readonly #limits: AdmissionLimits;
  /** A quarter of the seats is always left to others, where there is more than one. */
  readonly #maxPerRequest: number;
  /** Those who have something in the engine. */
  readonly #callers = new Map<string, Caller>();
  readonly #drain = new DrainRate();
  readonly #now: () => number;
  readonly #open = new Set<Ticket>();
  #numTaken = 0;
  #numTokens = 0;
  #lastCaller = 0;
  #lastGroup = 0;

  constructor(limits: AdmissionLimits, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#maxPerRequest = Math.max(1, limits.maxNumSeqs - Math.ceil(limits.maxNumSeqs / 4));
    this.#now = now;
  }

  /** Samples that wait for another one of their request. */
  get numHeldBack(): number {
    return [...this.#open].reduce((sum, { window }) => sum + window.numWaiting, 0);
  }

  /** @throws OverloadedError where a request of so many samples would not be let in now. */
  check(callerName: string, numSamples: number): void {
    const { maxNumSeqs, maxQueuedRequests } = this.#limits;
    const wanted = this.#placesFor(numSamples);
    const { numPlaces: own, numTickets } = this.#callers.get(callerName) ?? NOBODY;
    const numCallers = this.#callers.size + (numTickets === 0 ? 1 : 0);
    const max = maxNumSeqs + maxQueuedRequests;
    const missing = this.#numTaken + wanted - max;
    const share = Math.floor(max / numCallers);
    const part = Math.floor(share / (numTickets + 1));
    if (missing <= 0 || own + wanted <= share || wanted <= part) return;
    const retryAfter = this.#drain.secondsUntil(missing, this.#now());
    throw new OverloadedError(
      `The server is full: ${this.#numTaken} sequences run or wait, ${own} of them yours; ${maxNumSeqs} may run ` +
        `(--max-num-seqs) and ${maxQueuedRequests} wait (--max-queued-requests); try again in ${retryAfter} s`,
      { retryAfter },
    );
  }

  /**
   * @param numTokens of the prompts of all samples.
   * @throws OverloadedError as `check`, and where prompts have too many tokens.
   */
  open(
    callerName: string,
    numSamples: number,
    { numTokens = 0, onSampleEnded = () => {}, rank = null }: OpenOptions = {},
  ): Ticket {
    this.check(callerName, numSamples);
    const numPlaces = this.#placesFor(numSamples);
    const taken = { numPlaces, numTokens: Math.ceil((numTokens * numPlaces) / Math.max(1, numSamples)) };
    this.#checkTokens(callerName, taken.numTokens);
    const caller = this.#callerOf(callerName);
    if (this.#numTaken === 0) this.#drain.begin(this.#now());
    caller.numPlaces += numPlaces;
    caller.numTickets += 1;
    caller.numTokens += taken.numTokens;
    this.#numTaken += numPlaces;
    this.#numTokens += taken.numTokens;
    this.#lastGroup += 1;
    const ticket: Ticket = {
      caller: caller.id,
      group: this.#lastGroup,
      window: new SampleWindow(numPlaces),
      rank,
      onSampleEnded,
      close: () => {
        if (this.#open.delete(ticket)) this.#giveBack(callerName, caller, taken);
      },
    };
    this.#open.add(ticket);
    return ticket;
  }

  /** A request that is alone is always let in, and a caller with less than an equal share. */
  #checkTokens(callerName: string, wanted: number): void {
    const max = this.#limits.maxPromptTokens ?? MAX_PROMPT_TOKENS;
    const { numTokens: own, numTickets } = this.#callers.get(callerName) ?? NOBODY;
    const share = max / (this.#callers.size + (numTickets === 0 ? 1 : 0));
    if (this.#numTokens === 0 || this.#numTokens + wanted <= max || own + wanted <= share) return;
    const retryAfter = this.#drain.secondsUntil(1, this.#now());
    throw new OverloadedError(
      `The server is full: the prompts that run or wait have ${this.#numTokens} tokens, ${own} of them yours, and ${max} ` +
        `are what it can keep; try again in ${retryAfter} s`,
      { retryAfter },
    );
  }

  #placesFor(numSamples: number): number {
    return Math.min(numSamples, this.#maxPerRequest);
  }

  #callerOf(name: string): Caller {
    const known = this.#callers.get(name);
    if (known !== undefined) return known;
    this.#lastCaller += 1;
    const caller: Caller = { id: this.#lastCaller, numPlaces: 0, numTickets: 0, numTokens: 0 };
    this.#callers.set(name, caller);
    return caller;
  }

  #giveBack(name: string, caller: Caller, taken: Pick<Caller, 'numPlaces' | 'numTokens'>): void {
    const { numPlaces, numTokens } = taken;
    caller.numPlaces -= numPlaces;
    caller.numTokens -= numTokens;
    caller.numTickets -= 1;
    this.#numTokens -= numTokens;
    if (caller.numTickets === 0) this.#callers.delete(name);
    this.#numTaken -= numPlaces;
    this.#drain.end(numPlaces, this.#now());
  }
}
