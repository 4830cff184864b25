import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Admission, type AdmissionLimits, type Ticket } from '../../src/engine/admission.ts';
import { OverloadedError } from '../../src/errors.ts';

const LIMITS: AdmissionLimits = { maxNumSeqs: 4, maxQueuedRequests: 6 };

function fill(admission: Admission, caller: string): Ticket[] {
  const tickets: Ticket[] = [];
  while (isRoom(admission, caller, 1)) tickets.push(admission.open(caller, 1));
  return tickets;
}

function isRoom(admission: Admission, caller: string, numSamples: number): boolean {
  return refusal(admission, caller, numSamples) === null;
}

function refusal(admission: Admission, caller: string, numSamples: number): OverloadedError | null {
  try {
    admission.check(caller, numSamples);
    return null;
  } catch (error) {
    if (error instanceof OverloadedError) return error;
    throw error;
  }
}

describe('Admission by the tokens of prompts', () => {
  const limits: AdmissionLimits = { maxNumSeqs: 4, maxQueuedRequests: 100, maxPromptTokens: 1000 };
  const open = (admission: Admission, caller: string, numTokens: number, numSamples = 1) => {
    try {
      return admission.open(caller, numSamples, { numTokens });
    } catch (error) {
      if (error instanceof OverloadedError) return error.message;
      throw error;
    }
  };

  it('turns away what is more than all may have, until there is room', () => {
    const admission = new Admission(limits);
    const first = admission.open('a', 1, { numTokens: 600 });
    expect(open(admission, 'a', 500)).toMatch(
      /prompts that run or wait have 600 tokens, 600 of them yours, and 1000 are/,
    );
    expect(open(admission, 'a', 400)).toMatchObject({ group: 2 });
    first.close();
    expect(open(admission, 'a', 500)).toMatchObject({ group: 3 });
  });

  it('lets in a request that is alone, and a caller with less than an equal share', () => {
    const admission = new Admission(limits);
    expect(open(admission, 'heavy', 5000)).toMatchObject({ group: 1 });
    expect(open(admission, 'light', 400)).toMatchObject({ group: 2 });
    expect(open(admission, 'light', 200)).toMatch(/The server is full/);
  });

  it('counts nothing of a request without samples', () => {
    const admission = new Admission(limits);
    admission.open('a', 0, { numTokens: 0 });
    admission.open('a', 1, { numTokens: 600 });
    expect(open(admission, 'a', 500)).toMatch(/have 600 tokens/);
  });

  it('counts a prompt as often as samples of it have places', () => {
    const admission = new Admission(limits);
    admission.open('a', 1, { numTokens: 1 });
    // Three of four seats.
    expect(open(admission, 'a', 300 * 128, 128)).toMatchObject({ group: 2 });
    expect(open(admission, 'a', 100)).toMatch(/have 901 tokens/);
  });
});

describe('Admission', () => {
  it('lets one caller have every place', () => {
    expect(fill(new Admission(LIMITS), 'a')).toHaveLength(10);
  });

  it('lets a caller in who has less than an equal share, when another one has everything', () => {
    const admission = new Admission(LIMITS);
    fill(admission, 'heavy');
    expect(fill(admission, 'light')).toHaveLength(5);
    expect(fill(admission, 'third')).toHaveLength(3);
    expect(isRoom(admission, 'heavy', 1)).toBe(false);
  });

  it('lets a caller have exactly an equal share of those who are there and itself', () => {
    const admission = new Admission(LIMITS);
    fill(admission, 'heavy');
    admission.open('light', 2);
    expect(isRoom(admission, 'light', 3)).toBe(true);
    admission.open('light', 1);
    expect(isRoom(admission, 'light', 3)).toBe(false);
    admission.open('third', 1);
    expect(['fourth', 'fifth'].map((caller) => isRoom(admission, caller, 3))).toEqual([false, false]);
    expect(isRoom(admission, 'fourth', 2)).toBe(true);
  });

  it('gives the last places to whoever comes, though it has more than its share', () => {
    const admission = new Admission({ maxNumSeqs: 2, maxQueuedRequests: 2 });
    for (const caller of ['light', 'heavy', 'heavy', 'heavy']) admission.open(caller, 1);
    expect(isRoom(admission, 'heavy', 1)).toBe(false);
    expect(() => admission.open('heavy', 1)).toThrow(OverloadedError);
  });

  it.each([
    [1, 1],
    [2, 1],
    [3, 2],
  ])('lets a request of many samples have, of %i seats, %i', (maxNumSeqs, expected) => {
    const { window } = new Admission({ maxNumSeqs, maxQueuedRequests: 0 }).open('a', 9);
    let numStarted = 0;
    for (let sample = 0; sample < 9; sample += 1)
      window.enter(() => {
        numStarted += 1;
      });
    expect(numStarted).toBe(expected);
  });

  it('forgets callers who have left, and what each has given back', () => {
    const admission = new Admission(LIMITS);
    for (const ticket of ['a', 'b', 'c', 'd'].map((caller) => admission.open(caller, 1))) ticket.close();
    fill(admission, 'heavy');
    const tickets = fill(admission, 'light');
    expect(tickets).toHaveLength(5);
    for (const ticket of tickets.slice(1)) ticket.close();
    expect(isRoom(admission, 'light', 3)).toBe(true);
  });

  it('counts of a request of many samples the places only, and leaves a quarter of the seats to others', () => {
    const admission = new Admission(LIMITS);
    const started: number[] = [];
    const { window } = admission.open('a', 128);
    for (let sample = 0; sample < 128; sample += 1) window.enter(() => started.push(sample));
    expect(started).toEqual([0, 1, 2]);
    expect(admission.numHeldBack).toBe(125);
    expect(fill(admission, 'a')).toHaveLength(9);
  });

  it('lets a small request of a caller in whose large ones have taken everything, as many as there are places', () => {
    const admission = new Admission(LIMITS);
    while (isRoom(admission, 'a', 128)) admission.open('a', 128);
    expect(isRoom(admission, 'a', 3)).toBe(false);
    expect(fill(admission, 'a')).toHaveLength(7);
  });

  it('gives places back when a ticket is closed, once', () => {
    const admission = new Admission(LIMITS);
    const [first] = fill(admission, 'a');
    first!.close();
    first!.close();
    expect(fill(admission, 'a')).toHaveLength(1);
  });

  it('tells two requests of a caller apart, and two callers', () => {
    const admission = new Admission(LIMITS);
    const [a, again, b] = ['a', 'a', 'b'].map((caller) => admission.open(caller, 1));
    expect(again!.caller).toBe(a!.caller);
    expect(again!.group).not.toBe(a!.group);
    expect(b!.caller).not.toBe(a!.caller);
  });

  it('says when to come again by how fast requests have ended', () => {
    // The time before the first request tells nothing.
    let now = 1e6;
    const admission = new Admission(LIMITS, () => now);
    const tickets = fill(admission, 'a');
    now += 7000;
    expect(refusal(admission, 'a', 1)).toMatchObject({
      retryAfter: 7,
      message: expect.stringMatching(/10 sequences run or wait, 10 of them yours.*again in 7 s/),
    });
    for (const ticket of tickets.splice(0, 5)) {
      now += 2000;
      ticket.close();
      admission.open('a', 1);
    }
    expect(refusal(admission, 'a', 1)?.retryAfter).toBe(Math.ceil(17 / 5));
    expect(refusal(admission, 'a', 3)?.retryAfter).toBe(Math.ceil((3 * 17) / 5));
    now += 3_600_000;
    expect(refusal(admission, 'a', 1)?.retryAfter).toBe(600);
  });

  it('forgets how fast requests ended long ago', () => {
    let now = 0;
    const admission = new Admission(LIMITS, () => now);
    const tickets = fill(admission, 'a');
    const endOne = (milliseconds: number): void => {
      now += milliseconds;
      tickets.shift()!.close();
      tickets.push(admission.open('a', 1));
    };
    for (let i = 0; i < 100; i += 1) endOne(10_000);
    expect(refusal(admission, 'a', 1)?.retryAfter).toBe(10);
    for (let i = 0; i < 64; i += 1) endOne(2000);
    expect(refusal(admission, 'a', 1)?.retryAfter).toBe(2);
  });

  it('never refuses a caller who has less than its share, and is empty when all have left', () => {
    const step = fc.record({
      caller: fc.nat(3),
      numSamples: fc.integer({ min: 1, max: 9 }),
      leaves: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const admission = new Admission(LIMITS);
        const tickets: Ticket[] = [];
        for (const { caller, numSamples, leaves } of steps) {
          if (leaves) tickets.shift()?.close();
          else if (isRoom(admission, `${caller}`, numSamples)) {
            tickets.push(admission.open(`${caller}`, numSamples));
          }
          // Four callers have two places each at least.
          expect(isRoom(admission, 'newcomer', 2)).toBe(true);
        }
        for (const ticket of tickets) ticket.close();
        expect(fill(admission, 'a')).toHaveLength(10);
      }),
    );
  });
});
