// Turns the bytes of one instance's event stream into those that the client gets: whole events, without the journal, and
// without what an earlier instance has already sent. It looks at bytes, never at JSON, except of an error.

import { z } from 'zod';
import type { Journal } from './journal.ts';

/** The stream cannot go on from this instance. */
export class BrokenStreamError extends Error {}

const BLANK_LINE = Buffer.from('\n\n');
const DONE = Buffer.from('data: [DONE]');
const ERROR = Buffer.from('data: {"error"');
const COLON = 0x3a;
const SPACE = 0x20;
const COMMA = 0x2c;
const NEWLINE = 0x0a;
const LETTER_D = 0x64;
const ZERO = 0x30;
const NINE = 0x39;
/** No event is longer. */
const MAX_EVENT_BYTES = 64 * 1024 * 1024;
/** Faults of an instance, as opposed to those of the request. */
const INSTANCE_FAULTS = new Set([500, 502, 503]);

const errorEvent = z.object({ error: z.object({ code: z.int() }) });

/** The journal line that was read last; one is read for every token, so that it is not made anew. */
interface JournalLine {
  choice: number;
  readonly tokenIds: number[];
}

/** The event does not go to the client. */
const DROPPED = -1;

export class EventFilter {
  readonly #journal: Journal;
  /** Events of each choice that this instance has written; those of no choice under -1. */
  readonly #seen = new Map<number, { numEvents: number; numTokens: number }>();
  readonly #line: JournalLine = { choice: 0, tokenIds: [] };
  #rest: Buffer | null = null;
  /** Why nothing that comes now can be used. */
  failure: BrokenStreamError | null = null;

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /** The events in `chunk` that go to the client; those before a failure are good. */
  take(chunk: Buffer): Buffer[] {
    const bytes = this.#rest === null ? chunk : Buffer.concat([this.#rest, chunk]);
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
    this.#rest = start === bytes.length ? null : bytes.subarray(start);
    if ((this.#rest?.length ?? 0) > MAX_EVENT_BYTES) this.#fail('an event has no end');
    return parts;
  }

  /** Where in the event from `start` to `end` begins what the client gets. */
  #event(bytes: Buffer, start: number, end: number): number {
    const data = bytes[start] === COLON ? readJournalLine(bytes, start, this.#line) : 0;
    if (data > 0) return this.#ofChoice(this.#line, bytes, data, end) ? data : DROPPED;
    // Comments keep the connection open.
    if (bytes[start] !== LETTER_D) return start;
    return this.#ofNoChoice(bytes.subarray(start, end)) ? start : DROPPED;
  }

  #ofChoice({ choice, tokenIds }: JournalLine, bytes: Buffer, start: number, end: number): boolean {
    const journal = this.#journal;
    const record = journal.choice(choice);
    const seen = this.#seenOf(choice);
    seen.numEvents += 1;
    if (seen.numEvents <= record.numEvents) {
      this.#compare(record.tokenIds, seen.numTokens, tokenIds);
      seen.numTokens += tokenIds.length;
      return false;
    }
    journal.created ??= createdOf(bytes.subarray(start, end));
    record.numEvents += 1;
    journal.numEvents += 1;
    for (const id of tokenIds) record.tokenIds.push(id);
    return true;
  }

  #ofNoChoice(event: Buffer): boolean {
    const journal = this.#journal;
    if (startsWith(event, DONE)) journal.isDone = true;
    else if (startsWith(event, ERROR)) return this.#error(event);
    else {
      if (journal.isEmpty) journal.isBroken = true;
      const seen = this.#seenOf(-1);
      seen.numEvents += 1;
      if (seen.numEvents <= journal.numOthers) return false;
      journal.numOthers += 1;
      journal.numEvents += 1;
    }
    return true;
  }

  /** Never a text that is half of one instance and half of another that means something else. */
  #compare(sent: readonly number[], offset: number, written: readonly number[]): void {
    if (written.every((id, index) => sent[offset + index] === id)) return;
    this.#fail('the instance did not repeat what was sent');
  }

  /** An instance that dies or shuts down says so in the stream: the client need not know. */
  #error(event: Buffer): boolean {
    const parsed = errorEvent.safeParse(parseJson(event.toString('utf8', 'data: '.length)));
    const code = parsed.success ? parsed.data.error.code : 0;
    if (!INSTANCE_FAULTS.has(code)) return true;
    this.#fail(`the instance ended the stream with an error (${code})`);
    return false;
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
 * @returns where the data behind it begins; 0 for every other comment.
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
  return bytes[at] === NEWLINE && bytes[at + 1] === LETTER_D ? at + 1 : 0;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function startsWith(event: Buffer, prefix: Buffer): boolean {
  return event.length >= prefix.length && prefix.compare(event, 0, prefix.length) === 0;
}

/** Every event of an answer names the same time; the first one is asked. */
function createdOf(data: Buffer): number | null {
  const digits = /"created":\s*(\d{1,15})/.exec(data.toString('latin1'))?.[1];
  return digits === undefined ? null : Number(digits);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
