// Every transition of a transfer at the producer, without a socket: events in, state and effects out.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SendType } from '../../../src/config/kv-transfer-config.ts';
import { DEADLINES } from '../../../src/kv-transfer/p2p/deadlines.ts';
import type { Answer } from '../../../src/kv-transfer/p2p/messages.ts';
import {
  answerToPull,
  isOpen,
  newSend,
  type ProducerEffect,
  type ProducerEvent,
  type ProducerTransfer,
  reduceProducer,
} from '../../../src/kv-transfer/p2p/producer.ts';
import { NOW, StateMachine, transitionsOf } from './state-machine.ts';

const NUM_BLOCKS = 10;
const ABOUT = {
  ...{ transferId: 1, key: 'k#0', hash: 'h', address: '127.0.0.1:1', numTokens: 40, numBlocks: NUM_BLOCKS },
};
const LINK = 3;

type Machine = StateMachine<ProducerTransfer, ProducerEvent, ProducerEffect>;

function machineOf(sendType: SendType): Machine {
  const rules = { deadlines: DEADLINES, sendType };
  return new StateMachine(newSend(ABOUT, sendType, NOW), (transfer, event, now) =>
    reduceProducer(transfer, event, now, rules),
  );
}

function ticketText(ticket: bigint): string {
  return ticket.toString(16).padStart(16, '0');
}

const TICKET = 7n;
const FULL: Answer = { type: 'full', seq: 1 };
const GRANTED: Answer = { type: 'granted', seq: 1, ticket: ticketText(TICKET) };
const REFUSED: Answer = { type: 'refused', seq: 1, code: 'malformed', reason: 'blocks do not hold tokens' };
const UNASKED: Answer = { ...REFUSED, code: 'unasked', reason: 'nobody waits' };

const granted: ProducerEvent = { kind: 'answered', answer: GRANTED };
const full: ProducerEvent = { kind: 'answered', answer: FULL };
const computed: ProducerEvent = { kind: 'computed' };
const answerWanted: ProducerEvent = { kind: 'answerWanted' };
const linked: ProducerEvent = { kind: 'linked', ticket: TICKET, link: LINK };
const noLink: ProducerEvent = { kind: 'linked', ticket: TICKET, link: null };
const linkDown: ProducerEvent = { kind: 'linkDown', link: LINK };
const tick: ProducerEvent = { kind: 'tick' };
const pulled: ProducerEvent = { kind: 'pulled', grant: { ticket: 8n, firstBlock: 2 } };
const received: ProducerEvent = { kind: 'received' };

const get = () => machineOf('GET');
const put = () => machineOf('PUT');
const early = () => machineOf('PUT_ASYNC');

/** Every state that a transfer can be in for longer than an event. */
const STATES = {
  holding: get,
  'holding, computed': () => get().on(computed),
  'full at D': () => put().on(full),
  reserving: early,
  'reserving, computed': () => early().on(computed),
  'reserving, answer wanted': () => put().on(answerWanted),
  reserved: () => put().on(granted),
  connecting: () => early().on(granted),
  sending: () => early().on(granted, linked),
  'sending, answer wanted': () => put().on(granted, linked, answerWanted, linked),
  relinking: () => early().on(granted, linked, linkDown),
  'sending again': () => early().on(granted, linked, linkDown, linked),
  closing: () => early().on(granted, received),
  closed: () => early().on(granted, received, { kind: 'sendClosed' }),
} as const satisfies Record<string, () => Machine>;

type StateName = keyof typeof STATES;
const NAMES = Object.keys(STATES) as StateName[];

const expectEach = transitionsOf(STATES);

/** `event` ends the transfer in these states, and D hears of it or not. */
function expectEnds(
  event: ProducerEvent,
  outcome: string,
  tells: boolean,
  names: readonly StateName[],
): void {
  const ends = (name: StateName) => {
    const isAsked = name.endsWith('answer wanted');
    const before = tells ? (['tellCancel', 'end'] as const) : (['end'] as const);
    return ['closing', ...before, ...(isAsked ? (['answer'] as const) : []), 'closeSend'] as const;
  };
  expectEach(event, Object.fromEntries(names.map((name) => [name, ends(name)])));
  for (const name of names) expect(STATES[name]().on(event).effects).toContainEqual({ kind: 'end', outcome });
}

const OPEN = NAMES.filter((name) => isOpen(STATES[name]().state));
const SENDING = OPEN.filter((name) => STATES[name]().state.phase === 'sending');
const RESERVING = OPEN.filter((name) => STATES[name]().state.phase === 'reserving');
const LINKED = SENDING.filter((name) => STATES[name]().state.link !== null);

describe('a transfer at the producer', () => {
  it('is untouched by reduceProducer, which makes another', () => {
    const { state } = STATES.sending();
    const copy = structuredClone(state);
    reduceProducer(state, received, NOW, { deadlines: DEADLINES, sendType: 'PUT' });
    expect(state).toEqual(copy);
  });

  it('leaves when D has granted room, with PUT not before the prompt is computed', () => {
    expectEach(granted, {
      reserving: ['sending', 'connect'],
      'reserving, computed': ['sending', 'connect'],
      'reserving, answer wanted': ['sending', 'connect'],
      // D has forgotten the reservation already, or does not need it.
      ...Object.fromEntries(
        NAMES.filter((name) => !RESERVING.includes(name)).map((name) => [
          name,
          [STATES[name]().state.phase, 'tellCancel'],
        ]),
      ),
    });
    expect(put().on(granted).state.phase).toBe('reserved');
    expect(STATES.reserving().on(granted).effects).toEqual([{ kind: 'connect', ticket: TICKET }]);
  });

  it('holds its blocks where D is full, and lets its request be answered', () => {
    expectEach(full, {
      reserving: ['holding'],
      'reserving, computed': ['holding'],
      'reserving, answer wanted': ['holding', 'answer'],
    });
  });

  it('fails where D refuses or its reservation has no answer', () => {
    expectEnds({ kind: 'answered', answer: REFUSED }, 'failed', true, RESERVING);
    expectEnds({ kind: 'answered', answer: UNASKED }, 'cancelled', false, RESERVING);
    expectEnds({ kind: 'answered', answer: null }, 'failed', true, RESERVING);
  });

  it('leaves for D whenever it pulls, and the last pull counts', () => {
    expectEach(pulled, Object.fromEntries(OPEN.map((name) => [name, ['sending', 'connect']])));
    const again = STATES.sending().on(pulled);
    expect(again.state).toMatchObject({ link: null, hasRelinked: false });
    expect(again.on(linked).effects).toEqual([]);
    again.on({ kind: 'linked', ticket: 8n, link: 4 });
    expect(again.effects).toEqual([{ kind: 'send', link: 4, grant: { ticket: 8n, firstBlock: 2 } }]);
  });

  it('is sent over the link that was asked for, and fails without one', () => {
    expectEach(linked, { connecting: ['sending', 'send'], relinking: ['sending', 'send'] });
    expect(STATES.sending().effects).toEqual([
      { kind: 'send', link: LINK, grant: { ticket: TICKET, firstBlock: 0 } },
    ]);
    expectEnds(noLink, 'failed', true, ['connecting', 'relinking']);
  });

  it('makes a link that has died anew once', () => {
    expectEach(linkDown, {
      sending: ['sending', 'connect'],
      'sending, answer wanted': ['sending', 'connect'],
      'sending again': ['closing', 'tellCancel', 'end', 'closeSend'],
    });
    expect(LINKED).toEqual(['sending', 'sending, answer wanted', 'sending again']);
    expectEach({ kind: 'linkDown', link: LINK + 1 }, {});
    const pulledAgain = STATES['sending again']().on(pulled, { kind: 'linked', ticket: 8n, link: 4 });
    expect(pulledAgain.on({ kind: 'linkDown', link: 4 }).kinds).toEqual(['connect']);
  });

  it('that is reserved leaves when its prompt is computed', () => {
    expectEach(computed, { reserved: ['sending', 'connect'] });
  });

  it('lets its request be answered at once, with PUT not before D has the blocks or cannot take them', () => {
    const isPut: readonly StateName[] = ['reserving, answer wanted', 'reserved', 'sending, answer wanted'];
    expectEach(answerWanted, {
      ...Object.fromEntries(
        NAMES.filter((name) => !isPut.includes(name)).map((name) => [
          name,
          [STATES[name]().state.phase, 'answer'],
        ]),
      ),
      reserved: ['sending', 'connect'],
    });
    const subject = STATES['sending, answer wanted']().after(DEADLINES.put).on(tick);
    expect(subject.kinds).toEqual(['answer']);
    expect(subject.on(tick).kinds).toEqual([]);
    expect(subject.on(received).kinds).toEqual(['end', 'closeSend']);
  });

  it('ends when D has the blocks, or does not want them', () => {
    expectEnds(received, 'delivered', false, OPEN);
    expectEnds({ kind: 'cancelled' }, 'cancelled', true, OPEN);
  });

  it('ends where D is gone, or has forgotten what it granted', () => {
    expectEnds({ kind: 'peerGone' }, 'failed', false, OPEN);
    expectEnds({ kind: 'peerRestarted' }, 'failed', false, ['reserved', ...SENDING]);
  });

  it('ends where its memory is needed, or this instance closes', () => {
    expectEnds({ kind: 'evicted' }, 'expired', true, OPEN);
    expectEnds({ kind: 'shutDown' }, 'cancelled', false, OPEN);
  });

  it('releases its blocks once, when native threads no longer read them', () => {
    expectEach({ kind: 'sendClosed' }, { closing: ['closed', 'release'] });
  });

  it('is given up where nobody comes for it, or it does not get away, once it is computed', () => {
    expectEach(tick, {});
    const outcomeOf = (subject: Machine) =>
      subject
        .after(DEADLINES.hold)
        .on(tick)
        .effects.flatMap((effect) => (effect.kind === 'end' ? [effect.outcome] : []));
    const outcomes = Object.fromEntries(NAMES.map((name) => [name, outcomeOf(STATES[name]())]));
    const isLate = ['reserving, computed', 'reserving, answer wanted', 'sending, answer wanted'];
    expect(outcomes).toEqual(
      Object.fromEntries(
        NAMES.map((name) => [
          name,
          name === 'holding, computed' ? ['expired'] : isLate.includes(name) ? ['failed'] : [],
        ]),
      ),
    );
    for (const name of ['holding, computed', 'sending, answer wanted'] as const) {
      expect(STATES[name]().after(DEADLINES.hold).on(tick).kinds).toContain('tellCancel');
    }
    expect(STATES.holding().after(DEADLINES.hold).on(computed, tick).kinds).toEqual([]);
    expect(STATES['holding, computed']().after(DEADLINES.hold).on(pulled, tick).kinds).toEqual([]);
    const sent = STATES.sending().on(computed).after(DEADLINES.hold).on({ kind: 'sent' });
    expect(outcomeOf(sent)).toEqual(['failed']);
    expect(STATES.sending().on(computed).after(DEADLINES.hold).on({ kind: 'sent' }, tick).kinds).toEqual([]);
  });

  it('tells D that asks for it whether its blocks come', () => {
    const ask = { type: 'pull', seq: 1, key: 'k#0', ticket: ticketText(8n), first_block: 0 } as const;
    const stateOf = (subject: Machine, change: object = {}) => {
      const message = { ...ask, num_blocks: NUM_BLOCKS, hash: 'h', ...change };
      const answer = answerToPull(subject.state, message, NUM_BLOCKS);
      expect(answer).toMatchObject({ type: 'pulled', num_tokens: 40, num_blocks: NUM_BLOCKS });
      return answer.state;
    };
    expect(stateOf(STATES.holding())).toBe('computing');
    expect(stateOf(STATES['holding, computed']())).toBe('sending');
    expect(stateOf(STATES.holding(), { first_block: NUM_BLOCKS - 1 })).toBe('computing');
    expect(stateOf(STATES.holding(), { first_block: NUM_BLOCKS })).toBe('resized');
    expect(stateOf(STATES.holding(), { num_blocks: NUM_BLOCKS + 1 })).toBe('resized');
    expect(stateOf(STATES.holding(), { hash: 'other' })).toBe('mismatch');
  });
});

/** What the driver does, with every answer in the hands of the test. */
class World {
  readonly subject: Machine;
  readonly todo: ('reserve' | 'closeSend' | { readonly ticket: bigint })[] = [];
  /** Links that are up. */
  readonly links = new Set<number>();
  /** Where and under which ticket blocks were last sent. */
  lastSent: { readonly link: number; readonly ticket: bigint } | null = null;
  lastGranted: bigint | null = null;
  numAsked = 0;
  numAnswered = 0;
  numEnded = 0;
  numReleased = 0;
  #last = 100;

  constructor(sendType: SendType) {
    this.subject = machineOf(sendType);
    if (sendType !== 'GET') this.todo.push('reserve');
  }

  on(event: ProducerEvent): void {
    if (event.kind === 'answerWanted') this.numAsked += 1;
    if (event.kind === 'linkDown') this.links.delete(event.link);
    if (event.kind === 'pulled' && isOpen(this.subject.state)) this.lastGranted = event.grant.ticket;
    this.subject.on(event);
    for (const effect of this.subject.effects) this.#run(effect);
    expect(isOpen(this.subject.state)).toBe(this.numEnded === 0);
  }

  pull(): void {
    this.#last += 1;
    this.on({ kind: 'pulled', grant: { ticket: BigInt(this.#last), firstBlock: 0 } });
  }

  /** Answers one of the effects that have an answer. */
  answer(which: number, isGood: boolean): void {
    const [asked] = this.todo.splice(which % this.todo.length, 1);
    if (asked === undefined) return;
    if (asked === 'reserve') this.#reserved(which, isGood);
    else if (asked === 'closeSend') this.on({ kind: 'sendClosed' });
    else {
      this.#last += 1;
      if (isGood) this.links.add(this.#last);
      this.on({ kind: 'linked', ticket: asked.ticket, link: isGood ? this.#last : null });
    }
  }

  #reserved(which: number, isGood: boolean): void {
    if (!isGood) {
      this.on(which % 2 === 0 ? { kind: 'answered', answer: null } : { kind: 'answered', answer: REFUSED });
      return;
    }
    const isOfUse = this.subject.state.phase === 'reserving';
    const answer = which % 3 === 0 ? FULL : GRANTED;
    if (isOfUse && answer === GRANTED) this.lastGranted = TICKET;
    this.on({ kind: 'answered', answer });
    // A grant is used, or D hears that it is not.
    const isTold = this.subject.kinds.includes('tellCancel');
    expect(isTold).toBe(!isOfUse && answer === GRANTED);
  }

  #run(effect: ProducerEffect): void {
    // After the native threads were told to close, and after the end, nothing else is asked of them.
    if (effect.kind === 'connect' || effect.kind === 'send') expect(this.numEnded).toBe(0);
    if (effect.kind === 'connect') this.todo.push({ ticket: effect.ticket });
    else if (effect.kind === 'closeSend') this.todo.push('closeSend');
    else if (effect.kind === 'send') this.lastSent = { link: effect.link, ticket: effect.grant.ticket };
    else if (effect.kind === 'answer') this.numAnswered += 1;
    else if (effect.kind === 'end') this.numEnded += 1;
    else if (effect.kind === 'release') {
      expect(this.todo).not.toContain('closeSend');
      this.numReleased += 1;
    }
  }
}

const WHATEVER: readonly ProducerEvent[] = [
  ...[computed, tick, received, { kind: 'sent' } as const],
  ...([{ kind: 'cancelled' }, { kind: 'peerGone' }, { kind: 'peerRestarted' }] as const),
  ...([{ kind: 'evicted' }, { kind: 'shutDown' }] as const),
];

describe('any sequence of events at the producer', () => {
  const step = fc.oneof(
    { arbitrary: fc.constantFrom(...WHATEVER), weight: 1 },
    { arbitrary: fc.record({ answer: fc.nat(), isGood: fc.boolean() }), weight: 6 },
    { arbitrary: fc.constantFrom('pull' as const, 'break' as const, 'want' as const), weight: 4 },
    { arbitrary: fc.record({ ms: fc.nat(50_000) }), weight: 1 },
  );

  it('ends once, releases its blocks once, answers its request, and sends under the newest grant', () => {
    fc.assert(
      fc.property(
        fc.constantFrom<SendType>('GET', 'PUT', 'PUT_ASYNC'),
        fc.array(step, { maxLength: 40 }),
        (sendType, steps) => {
          const world = new World(sendType);
          for (const next of steps) {
            if (next === 'pull') world.pull();
            // A request asks for its answer once.
            else if (next === 'want') {
              if (world.numAsked === 0) world.on(answerWanted);
            } else if (next === 'break') {
              for (const link of world.links) world.on({ kind: 'linkDown', link });
            } else if ('kind' in next) world.on(next);
            else if ('answer' in next) world.answer(next.answer, next.isGood);
            else world.subject.after(next.ms);
          }
          while (world.todo.length > 0) world.answer(1, true);
          const { state } = world.subject;
          if (state.phase === 'sending') {
            expect(world.lastSent).toEqual({ link: state.link, ticket: world.lastGranted });
            expect(world.links).toContain(state.link);
          }
          world.on({ kind: 'cancelled' });
          while (world.todo.length > 0) world.answer(0, true);
          expect(world.subject.state.phase).toBe('closed');
          expect(world.numEnded).toBe(1);
          expect(world.numReleased).toBe(1);
          expect(world.numAnswered).toBe(world.numAsked);
        },
      ),
      { numRuns: 1000 },
    );
  });
});
