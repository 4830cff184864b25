// Turns the bytes of one instance's event stream into those that the client gets: whole events, without the journal, and
// without what an earlier instance has already sent. It looks at bytes; only an error is parsed.

import type { EndpointAdapter } from './endpoints/endpoint.ts';
import type { StreamProgress } from './stream-progress.ts';

/** The stream cannot go on from this instance. */
export class BrokenStreamError extends Error {
  /** Of the error with which the instance ended the stream; null where it did not. */
  readonly status: number | null;

  constructor(message: string, status: number | null = null) {
    super(message);
    this.status = status;
  }
}

const BLANK_LINE = Buffer.from('\n\n');
const COLON = 0x3a;
const SPACE = 0x20;
const COMMA = 0x2c;
const NEWLINE = 0x0a;
const ZERO = 0x30;
const NINE = 0x39;
const MAX_EVENT_BYTES = 64 * 1024 * 1024;
/** Another instance may not have them: faults of an instance, or of the request. */
const INSTANCE_FAULTS = new Set([500, 502, 503]);
/** Two instances that have it are believed. */
const FAULT = 500;
/** The key of events that belong to no choice. */
const NO_CHOICE = -1;
const DROPPED = -1;

/** The journal line that was read last; reused, since there is one for every token. */
interface JournalLine {
  choice: number;
  readonly tokenIds: number[];
}

export class EventFilter {
  readonly #endpoint: EndpointAdapter;
  readonly #progress: StreamProgress;
  /** What this instance has written of each choice. */
  readonly #seen = new Map<number, { numEvents: number; numTokens: number }>();
  readonly #line: JournalLine = { choice: 0, tokenIds: [] };
  /** What has come of an event whose end has not. */
  #rest: Buffer[] = [];
  failure: BrokenStreamError | null = null;

  constructor(endpoint: EndpointAdapter, progress: StreamProgress) {
    this.#endpoint = endpoint;
    this.#progress = progress;
  }

  /** The events in `chunk` that go to the client; those before a failure are good. */
  take(chunk: Buffer): Buffer[] {
    const bytes = this.#withRest(chunk);
    if (bytes === null) return [];
    const parts: Buffer[] = [];
    let start = 0;
    while (this.failure === null) {
      const blank = bytes.indexOf(BLANK_LINE, start);
      if (blank < 0) break;
      const end = blank + BLANK_LINE.length;
      const from = this.#event(bytes, start, end);
      if (from !== DROPPED) parts.push(bytes.subarray(from, end));
      start = end;
    }
    this.#rest = start === bytes.length ? [] : [bytes.subarray(start)];
    return parts;
  }

  /** Null where an event goes on: each of its bytes is searched once. */
  #withRest(chunk: Buffer): Buffer | null {
    const isSplit = this.#rest.at(-1)?.at(-1) === NEWLINE && chunk[0] === NEWLINE;
    if (isSplit || chunk.includes(BLANK_LINE)) {
      return this.#rest.length === 0 ? chunk : Buffer.concat([...this.#rest, chunk]);
    }
    this.#rest.push(chunk);
    const length = this.#rest.reduce((sum, part) => sum + part.length, 0);
    if (length > MAX_EVENT_BYTES) this.#fail('an event has no end');
    return null;
  }

  /** Where in the event from `start` to `end` the client's part begins. */
  #event(bytes: Buffer, start: number, end: number): number {
    const first = bytes[start];
    if (first === COLON) {
      const data = readJournalLine(bytes, start, this.#line);
      // Other comments keep the connection open.
      if (data === 0) return start;
      return this.#ofChoice(this.#line, bytes, data, end) ? data : DROPPED;
    }
    if (first === NEWLINE) return start;
    return this.#ofNoChoice(bytes.subarray(start, end)) ? start : DROPPED;
  }

  #ofChoice({ choice, tokenIds }: JournalLine, bytes: Buffer, start: number, end: number): boolean {
    const progress = this.#progress;
    const sent = progress.choice(choice);
    const seen = this.#seenOf(choice);
    seen.numEvents += 1;
    if (seen.numEvents <= sent.numEvents) {
      this.#compare(sent.tokenIds, seen.numTokens, tokenIds);
      seen.numTokens += tokenIds.length;
      return false;
    }
    // An instance that puts other numbers of tokens into its events cannot go on where the one before stopped.
    if (seen.numTokens !== sent.numTokens) this.#fail('the instance cuts the text otherwise');
    if (this.failure !== null) return false;
    seen.numTokens += tokenIds.length;
    // All events of an answer name the same time.
    progress.created ??= this.#endpoint.createdAt(bytes.subarray(start, end));
    progress.add(sent, tokenIds);
    return true;
  }

  #ofNoChoice(event: Buffer): boolean {
    const progress = this.#progress;
    if (this.#endpoint.isLastEvent(event)) {
      progress.isDone = true;
      return true;
    }
    const status = this.#endpoint.errorStatus(event);
    if (status !== null) return this.#isForClient(status);
    if (progress.numEvents === 0) progress.isBroken = true;
    const seen = this.#seenOf(NO_CHOICE);
    seen.numEvents += 1;
    if (seen.numEvents <= progress.numOthers) return false;
    progress.numOthers += 1;
    progress.numEvents += 1;
    return true;
  }

  /** An instance that dies or shuts down says so in the stream: the client need not know. */
  #isForClient(status: number): boolean {
    const progress = this.#progress;
    const isSecondFault = status === FAULT && progress.hadFault;
    if (status === FAULT) progress.hadFault = true;
    if (!INSTANCE_FAULTS.has(status) || isSecondFault) {
      // Nothing of the answer comes after it.
      progress.isDone = true;
      progress.errorStatus = status === 0 ? FAULT : status;
      return true;
    }
    this.failure ??= new BrokenStreamError(`the instance ended the stream with an error (${status})`, status);
    return false;
  }

  /** A text of which one instance wrote the beginning and another one a different end would mean something else. */
  #compare(sent: readonly number[], offset: number, written: readonly number[]): void {
    if (written.every((id, index) => sent[offset + index] === id)) return;
    this.#fail('the instance did not repeat what was sent');
  }

  #fail(why: string): void {
    this.failure ??= new BrokenStreamError(why);
  }

  #seenOf(choice: number): { numEvents: number; numTokens: number } {
    let seen = this.#seen.get(choice);
    if (seen === undefined) {
      seen = { numEvents: 0, numTokens: 0 };
      this.#seen.set(choice, seen);
    }
    return seen;
  }
}

/**
 * Reads `: <choice> <id>,<id>,...` at `start` into `line`.
 * @returns where the next line begins; 0 for every other comment.
 */
function readJournalLine(bytes: Buffer, start: number, line: JournalLine): number {
  let at = start + 2;
  if (bytes[start + 1] !== SPACE || !isDigit(bytes[at])) return 0;
  line.choice = 0;
  for (; isDigit(bytes[at]); at++) line.choice = line.choice * 10 + bytes[at]! - ZERO;
  if (bytes[at] === SPACE) at++;
  line.tokenIds.length = 0;
  while (isDigit(bytes[at])) {
    let id = 0;
    for (; isDigit(bytes[at]); at++) id = id * 10 + bytes[at]! - ZERO;
    line.tokenIds.push(id);
    if (bytes[at] === COMMA) at++;
  }
  return bytes[at] === NEWLINE && bytes[at + 1] !== NEWLINE ? at + 1 : 0;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}
