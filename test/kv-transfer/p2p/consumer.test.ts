// Every transition of a transfer at the consumer, without a socket: events in, state and effects out.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ConsumerEffect,
  type ConsumerEvent,
  type ConsumerTransfer,
  firstMissing,
  isExpected,
  pulledTransfer,
  pushedTransfer,
  reduceConsumer,
  type SampleLoad,
} from '../../../src/kv-transfer/p2p/consumer.ts';
import { DEADLINES } from '../../../src/kv-transfer/p2p/deadlines.ts';
import type { Answer } from '../../../src/kv-transfer/p2p/messages.ts';
import type { Slots } from '../../../src/kv-transfer/p2p/slot-pool.ts';
import { NOW, StateMachine, transitionsOf } from './state-machine.ts';

const ABOUT = { key: 'k#0', hash: 'h', address: '127.0.0.1:1', numTokens: 40 };
const RULES = { deadlines: DEADLINES, groups: { blockSize: 4, windows: [null] } };
const NUM_BLOCKS = 10;
const BLOCKS = Array.from({ length: 11 }, (_, index) => 100 + index);
const TICKET = 7n;

function slotsOf(count: number): Slots {
  return { location: 'buffer', offsets: new Float64Array(count) };
}

type Machine = StateMachine<ConsumerTransfer, ConsumerEvent, ConsumerEffect>;

function machineOf(start: ConsumerTransfer): Machine {
  return new StateMachine(start, (transfer, event, now) => reduceConsumer(transfer, event, now, RULES));
}

const claimed: ConsumerEvent = { kind: 'claimed', transferIds: [1] };
const wanted: ConsumerEvent = { kind: 'wanted', transferId: 1, firstBlock: 0, blocks: BLOCKS };
const slotsTaken: ConsumerEvent = {
  ...{ kind: 'slotsTaken', slots: slotsOf(NUM_BLOCKS), firstBlock: 0, ticket: TICKET },
};
const received: ConsumerEvent = { kind: 'received', ticket: TICKET };
const corrupt: ConsumerEvent = { kind: 'corrupt', ticket: TICKET };
const closed: ConsumerEvent = { kind: 'bufferClosed', nextTicket: 8n };
const tick: ConsumerEvent = { kind: 'tick', progress: 0 };
const copied = (isIntact: boolean, transferId = 1): ConsumerEvent => ({
  kind: 'copied',
  transferId,
  isIntact,
});

const NOTHING_LOADED = { kind: 'loaded', transferId: 1, numTokens: 0, numCopied: 0 };

type PullState = Extract<Answer, { type: 'pulled' }>['state'];
function answered(state: PullState, num_tokens = 40, ticket = TICKET): ConsumerEvent {
  const answer = { type: 'pulled', seq: 1, state, num_tokens, num_blocks: 10 } as const;
  return { kind: 'answered', ticket, answer };
}

const BUFFER = { slots: slotsOf(NUM_BLOCKS), ticket: TICKET, firstBlock: 0, isClosing: false };

const pushed = () => machineOf(pushedTransfer(ABOUT, BUFFER, NOW));
const pulled = () => machineOf(pulledTransfer(ABOUT, NOW)).on(claimed);

/** Every state that a transfer can be in for longer than an event. */
const STATES = {
  pushed,
  'pushed and claimed': () => pushed().on(claimed),
  'pushed and wanted': () => pushed().on(claimed, wanted),
  'received, not claimed': () => pushed().on(received),
  waiting: () => pulled().on({ kind: 'noSlots', mayWait: true }, wanted),
  pulling: () => pulled().on(slotsTaken, wanted),
  arriving: () => pulled().on(slotsTaken, wanted, answered('sending')),
  computing: () => pulled().on(slotsTaken, wanted, answered('computing')),
  closing: () => pulled().on(slotsTaken, wanted, answered('sending'), corrupt),
  'closing, blocks let go': () =>
    pulled().on(slotsTaken, wanted, answered('sending'), corrupt, copied(false)),
  'pulling again': () => pulled().on(slotsTaken, wanted, answered('sending'), corrupt, copied(false), closed),
  received: () => pushed().on(claimed, received),
  loading: () => pushed().on(claimed, received, wanted),
  ending: () => pushed().on(claimed, received, wanted, { kind: 'ended' }),
  'failed while loading': () => pushed().on(claimed, wanted, { kind: 'peerGone' }),
  failed: () => pushed().on(claimed, { kind: 'peerGone' }),
  over: () => pushed().on(claimed, received, wanted, copied(true)),
} as const satisfies Record<string, () => Machine>;

type StateName = keyof typeof STATES;

const expectEach = transitionsOf(STATES);

describe('a transfer at the consumer', () => {
  it('is untouched by reduceConsumer, which makes another', () => {
    const { state } = STATES.arriving();
    const copy = structuredClone(state);
    reduceConsumer(state, { kind: 'ended' }, NOW, RULES);
    expect(state).toEqual(copy);
  });

  it('that was pushed is claimed by its request', () => {
    expectEach(claimed, {
      pushed: ['arriving'],
      'received, not claimed': ['received'],
    });
    expect(pushed().on(claimed).state.samples).toHaveLength(1);
  });

  it('takes slots for its whole prompt and pulls into them', () => {
    expect(pulled().effects).toEqual([{ kind: 'takeSlots', firstBlock: 0, count: 10 }]);
    expect(pulled().on(slotsTaken).effects).toMatchObject([
      { kind: 'openBuffer', buffer: { ticket: TICKET } },
      { kind: 'pull', ticket: TICKET, firstBlock: 0 },
    ]);
  });

  it('that waited takes slots only for the blocks that its sequences lack', () => {
    const waiting = pulled().on(
      { kind: 'noSlots', mayWait: true },
      { kind: 'wanted', transferId: 1, firstBlock: 3, blocks: BLOCKS },
      { kind: 'slotsFreed' },
    );
    expect(waiting.effects).toEqual([{ kind: 'takeSlots', firstBlock: 3, count: 7 }]);
  });

  it('gives back slots that it has no use for', () => {
    const givesBack = (phase: ConsumerTransfer['phase']) => [phase, 'giveSlots'] as const;
    expectEach(slotsTaken, {
      pushed: givesBack('arriving'),
      'pushed and claimed': givesBack('arriving'),
      'pushed and wanted': givesBack('arriving'),
      'received, not claimed': givesBack('received'),
      waiting: ['pulling', 'openBuffer', 'pull', 'load'],
      pulling: givesBack('pulling'),
      arriving: givesBack('arriving'),
      computing: givesBack('arriving'),
      closing: givesBack('pulling'),
      'closing, blocks let go': givesBack('pulling'),
      'pulling again': givesBack('pulling'),
      received: givesBack('received'),
      loading: givesBack('received'),
      ending: givesBack('over'),
      'failed while loading': givesBack('over'),
      failed: givesBack('over'),
      over: givesBack('over'),
    });
  });

  it('waits where there are no slots, and computes here where too many wait', () => {
    expect(pulled().on({ kind: 'noSlots', mayWait: true }).state.phase).toBe('waiting');
    const refused = pulled().on({ kind: 'noSlots', mayWait: false });
    expect(refused.effects).toEqual([{ kind: 'recompute', reason: 'no_room' }, { kind: 'tellCancel' }]);
    expectEach({ kind: 'noSlots', mayWait: false }, {});
  });

  it('tries again when slots are free only while it waits', () => {
    expectEach({ kind: 'slotsFreed' }, { waiting: ['waiting', 'takeSlots'] });
  });

  it('gives the blocks of a sequence to the native threads as soon as both it and a buffer are there', () => {
    expectEach(wanted, {
      'pushed and claimed': ['arriving', 'load'],
      received: ['received', 'load'],
      failed: ['over', 'loaded', 'forget'],
      over: ['over', 'loaded'],
      pushed: ['arriving', 'loaded'],
      'received, not claimed': ['received', 'loaded'],
    });
    expect(STATES['pushed and wanted']().effects).toEqual([
      { kind: 'load', transferId: 1, ticket: TICKET, firstBlock: 0, blocks: BLOCKS.slice(0, 10) },
    ]);
    expect(STATES.waiting().on(slotsTaken).effects.at(-1)).toMatchObject({ kind: 'load', ticket: TICKET });
    const late = pulled().on(slotsTaken, answered('sending'), corrupt, wanted);
    expect(late.kinds).toEqual([]);
    expect(late.on(closed).effects.at(-1)).toMatchObject({ kind: 'load', ticket: 8n });
  });

  it('tells P when all blocks are here', () => {
    expectEach(received, {
      pushed: ['received', 'tellReceived'],
      'pushed and claimed': ['received', 'tellReceived'],
      'pushed and wanted': ['received', 'tellReceived'],
      pulling: ['received', 'tellReceived'],
      arriving: ['received', 'tellReceived'],
      computing: ['received', 'tellReceived'],
    });
    expect(pushed().on(received).effects).toMatchObject([{ isPushed: true, location: 'buffer' }]);
    expect(STATES.arriving().on(received).effects).toMatchObject([{ isPushed: false }]);
  });

  it('is pulled again after a damaged block, or forgotten where no request has come', () => {
    expectEach(corrupt, {
      pushed: ['over', 'closeBuffer', 'forget'],
      'pushed and claimed': ['pulling', 'closeBuffer'],
      'pushed and wanted': ['pulling', 'closeBuffer'],
      pulling: ['pulling', 'closeBuffer'],
      arriving: ['pulling', 'closeBuffer'],
      computing: ['pulling', 'closeBuffer'],
    });
  });

  it('is pulled again under a new ticket into the same slots, once', () => {
    const again = STATES['pulling again']();
    expect(again.effects).toMatchObject([
      { kind: 'openBuffer', buffer: { ticket: 8n } },
      { kind: 'pull', ticket: 8n },
      { kind: 'load', ticket: 8n },
    ]);
    expect(again.on(corrupt).effects).toEqual([]);
    again.on({ kind: 'corrupt', ticket: 8n });
    expect(again.kinds).toEqual(['recompute', 'tellCancel', 'closeBuffer']);
    expect(again.effects[0]).toEqual({ kind: 'recompute', reason: 'corrupt' });
    const computing = STATES.computing().on(corrupt, copied(false), closed, answered('computing', 40, 8n));
    computing.on({ kind: 'corrupt', ticket: 8n });
    expect(computing.effects[0]).toEqual({ kind: 'recompute', reason: 'corrupt' });
  });

  it('is pulled again into the same slots where its first blocks are not needed', () => {
    const wants = { ...wanted, firstBlock: 3 };
    const some = { ...slotsTaken, slots: slotsOf(NUM_BLOCKS - 3), firstBlock: 3 };
    const subject = pulled().on({ kind: 'noSlots', mayWait: true }, wants, some, answered('sending'));
    expect(subject.on(corrupt, copied(false), closed).effects).toMatchObject([
      { kind: 'openBuffer', buffer: { ticket: 8n, firstBlock: 3, slots: some.slots } },
      { kind: 'pull', ticket: 8n, firstBlock: 3 },
      { kind: 'load', ticket: 8n, firstBlock: 3 },
    ]);
  });

  it('counts as pulled where it was pulled after P had pushed it in vain', () => {
    const again = pushed().on(claimed, corrupt, closed, answered('sending', 40, 8n));
    expect(again.on({ kind: 'received', ticket: 8n }).effects).toMatchObject([{ isPushed: false }]);
  });

  it('frees the slots of a closed buffer where it is over', () => {
    expectEach(closed, {
      // Native threads close a buffer after they have let go of the blocks: the first of these never happens.
      closing: ['pulling', 'openBuffer', 'pull'],
      'closing, blocks let go': ['pulling', 'openBuffer', 'pull', 'load'],
      ending: ['over', 'giveSlots'],
      'failed while loading': ['over', 'giveSlots'],
      failed: ['over', 'giveSlots'],
      over: ['over', 'giveSlots'],
    });
  });

  it('believes answers to its pull, and no others', () => {
    expectEach(answered('sending'), { pulling: ['arriving'] });
    expectEach(answered('sending', 40, 8n), { 'pulling again': ['arriving'] });
    expectEach(answered('unknown'), { pulling: ['pulling', 'pullLater'] });
    expectEach({ kind: 'pullAgain', ticket: TICKET }, { pulling: ['pulling', 'pull'] });
    expectEach(answered('resized', 20), { pulling: ['pulling', 'closeBuffer'] });
  });

  it.each([
    ['that it is another prompt', answered('mismatch'), 'mismatch', true],
    ['that it is over', answered('gone'), 'unknown', false],
    ['that it has no tokens', answered('resized', 0), 'mismatch', true],
    ['that it has as many tokens', answered('resized', 40), 'mismatch', true],
    [
      'to something else',
      { kind: 'answered', ticket: TICKET, answer: { type: 'full', seq: 1 } },
      'mismatch',
      true,
    ],
    ['that never came', { kind: 'answered', ticket: TICKET, answer: 'gone' }, 'peer_gone', true],
    ['that was a refusal', { kind: 'answered', ticket: TICKET, answer: 'refused' }, 'mismatch', false],
  ] as const)('is computed here after an answer %s', (_, event, reason, tells) => {
    const subject = STATES.pulling().on(event);
    expect(subject.effects[0]).toEqual({ kind: 'recompute', reason });
    expect(subject.kinds.includes('tellCancel')).toBe(tells);
    expect(subject.state.phase).toBe('over');
    expect(subject.on(copied(false)).effects).toContainEqual(NOTHING_LOADED);
  });

  it('asks P, which does not know it yet, until the deadline', () => {
    const late = STATES.pulling().after(DEADLINES.unknown).on(answered('unknown'));
    expect(late.effects[0]).toEqual({ kind: 'recompute', reason: 'unknown' });
    for (const state of ['unknown', 'gone'] as const) {
      const again = STATES['pulling again']().on(answered(state, 40, 8n));
      expect(again.effects[0]).toEqual({ kind: 'recompute', reason: 'corrupt' });
    }
  });

  it('takes as many blocks as P has', () => {
    const resized = STATES.pulling().on(answered('resized', 20), copied(false), closed);
    expect(resized.effects).toMatchObject([
      { kind: 'giveSlots' },
      { kind: 'takeSlots', firstBlock: 0, count: 5 },
    ]);
    resized.on({ ...slotsTaken, slots: slotsOf(5), ticket: 9n });
    expect(resized.effects).toContainEqual({
      ...{ kind: 'load', transferId: 1, ticket: 9n, firstBlock: 0 },
      blocks: BLOCKS.slice(0, 5),
    });
  });

  describe('of a model whose layers keep states', () => {
    /** Of the two blocks at the end. */
    const OF_STATES = [200, 201];
    const groups = { ...RULES.groups, stateBlocks: OF_STATES.length };
    const begin = (numTokens = 40) =>
      new StateMachine<ConsumerTransfer, ConsumerEvent, ConsumerEffect>(
        pulledTransfer({ ...ABOUT, numTokens }, NOW),
        (transfer, event, now) => reduceConsumer(transfer, event, now, { ...RULES, groups }),
      ).on(claimed);
    const wants = { ...wanted, blocks: [...BLOCKS.slice(0, 10), ...OF_STATES] };
    const slots = (count: number, ticket = TICKET) => ({ ...slotsTaken, slots: slotsOf(count), ticket });

    it('brings them behind those of its tokens', () => {
      const subject = begin().on({ ...wants, firstBlock: 3 });
      expect(subject.on(slots(12), received).effects).not.toContainEqual(NOTHING_LOADED);
      const blocks = [...BLOCKS.slice(3, 10), ...OF_STATES];
      expect(begin().on(slots(12), { ...wants, firstBlock: 3 }).effects).toMatchObject([
        { kind: 'load', firstBlock: 3, blocks },
      ]);
    });

    it('brings them where P has fewer blocks of tokens', () => {
      const resized = begin().on(slots(12), wants, answered('resized', 20), copied(false), closed);
      expect(resized.effects).toMatchObject([
        { kind: 'giveSlots' },
        { kind: 'takeSlots', firstBlock: 0, count: 7 },
      ]);
      resized.on(slots(7, 9n));
      expect(resized.effects).toContainEqual({
        ...{ kind: 'load', transferId: 1, ticket: 9n, firstBlock: 0 },
        blocks: [...BLOCKS.slice(0, 5), ...OF_STATES],
      });
    });

    it('is not for a sequence that has as many tokens as P, or more, and states of its own', () => {
      for (const firstBlock of [5, 6, 9]) {
        const subject = begin().on(
          slots(12),
          { ...wants, firstBlock },
          answered('resized', 20),
          copied(false),
        );
        expect(subject.on(closed).effects.map(({ kind }) => kind)).not.toContain('takeSlots');
        expect(subject.effects).toContainEqual(NOTHING_LOADED);
      }
    });
  });

  it('counts what was copied', () => {
    const wants = { ...wanted, firstBlock: 3 };
    expect(STATES.received().on(wants).effects).toMatchObject([
      { kind: 'load', firstBlock: 3, blocks: BLOCKS.slice(3, 10) },
    ]);
    expect(STATES.received().on(wants, copied(true)).effects).toEqual([
      { kind: 'loaded', transferId: 1, numTokens: 40, numCopied: 28 },
      { kind: 'closeBuffer', ticket: TICKET },
      { kind: 'forget' },
    ]);
  });

  it('copies nothing for a sequence that has all blocks, nor for one that has too few', () => {
    expect(STATES.received().on({ ...wanted, firstBlock: 10 }).effects[0]).toMatchObject({ numTokens: 40 });
    expect(STATES.received().on({ ...wanted, blocks: [1] }).effects[0]).toMatchObject({ numTokens: 0 });
  });

  it('answers a sequence that asks after its request has ended', () => {
    expect(STATES.failed().on(wanted).effects).toContainEqual(NOTHING_LOADED);
    expect(STATES.over().on(wanted).effects).toEqual([NOTHING_LOADED]);
  });

  it('that was damaged in the buffer is computed here where all had arrived, else pulled again', () => {
    const subject = STATES.loading().on(corrupt, copied(false));
    expect(subject.effects[0]).toEqual({ kind: 'recompute', reason: 'corrupt' });
    expect(subject.kinds).not.toContain('tellCancel');
    expect(subject.effects).toContainEqual(NOTHING_LOADED);
    const early = STATES.arriving().on(corrupt, copied(false));
    expect([early.state.phase, early.state.samples[0]?.state]).toEqual(['pulling', 'wanted']);
  });

  it('answers a sequence only when the native threads have let go of its blocks', () => {
    const letGo = copied(false);
    expectEach(letGo, {
      // Where all have arrived they let go of them only when they are filled, or one is damaged.
      loading: ['over', 'recompute', 'closeBuffer', 'loaded', 'forget'],
      ending: ['over', 'loaded', 'forget'],
      'failed while loading': ['over', 'loaded', 'forget'],
    });
    expect(STATES.ending().on(letGo).effects[0]).toEqual(NOTHING_LOADED);
    expect(STATES['failed while loading']().on(letGo).effects[0]).toEqual(NOTHING_LOADED);
  });

  it('gives a sequence what was copied before the native threads heard that it is over', () => {
    const everything = { kind: 'loaded', transferId: 1, numTokens: 40, numCopied: 40 };
    for (const name of ['ending', 'failed while loading', 'closing'] as const) {
      const subject = STATES[name]().on(copied(true));
      expect(subject.effects[0], name).toEqual(everything);
      expect([subject.state.phase, subject.state.isForgotten], name).toEqual(['over', true]);
    }
  });

  it('that several sequences load ends for all of them when one block is damaged in the buffer', () => {
    const two = pushed().on({ kind: 'claimed', transferIds: [1, 2] }, received, wanted);
    two.on({ ...wanted, transferId: 2 }, copied(false));
    expect(two.kinds).toEqual(['recompute', 'closeBuffer', 'loaded']);
    two.on(copied(true, 2));
    expect(two.kinds).toEqual(['loaded', 'forget']);
    expect(two.effects[0]).toMatchObject({ transferId: 2, numTokens: 40 });
  });

  it('goes on for the sequences that are left when one of them ends', () => {
    const two = pushed().on({ kind: 'claimed', transferIds: [1, 2] }, wanted, { ...wanted, transferId: 2 });
    expect(two.on({ kind: 'unwanted', transferId: 1 }).kinds).toEqual([]);
    expect(two.on({ kind: 'unwanted', transferId: 2 }).kinds).toEqual(['tellCancel', 'closeBuffer']);
    expect(two.on(copied(false)).effects).toEqual([NOTHING_LOADED]);
    expect(two.on(copied(false, 2)).kinds).toEqual(['loaded', 'forget']);
  });

  it('is not pulled again for a sequence that has ended', () => {
    const two = pushed().on({ kind: 'claimed', transferIds: [1, 2] }, wanted, { ...wanted, transferId: 2 });
    two.on({ kind: 'unwanted', transferId: 1 }, corrupt, copied(false));
    expect(two.effects).toEqual([NOTHING_LOADED]);
    expect(two.on(copied(false, 2)).kinds).toEqual([]);
    expect(two.on(closed).effects).toMatchObject([
      { kind: 'openBuffer' },
      { kind: 'pull' },
      { kind: 'load', transferId: 2 },
    ]);
  });

  it('ends with its request, and P hears of it where it still sends', () => {
    const loads = ['over', 'tellCancel', 'closeBuffer'] as const;
    const unasked = ['over', 'tellCancel', 'closeBuffer', 'forget'] as const;
    expectEach(
      { kind: 'ended' },
      {
        pushed: unasked,
        'pushed and claimed': unasked,
        'pushed and wanted': loads,
        'received, not claimed': ['over', 'closeBuffer', 'forget'],
        waiting: ['over', 'loaded', 'tellCancel', 'forget'],
        pulling: loads,
        arriving: loads,
        computing: loads,
        closing: ['over', 'tellCancel'],
        'closing, blocks let go': ['over', 'loaded', 'tellCancel', 'forget'],
        'pulling again': loads,
        received: ['over', 'closeBuffer', 'forget'],
        loading: ['over', 'closeBuffer'],
        failed: ['over', 'forget'],
      },
    );
    expectEach(
      { kind: 'unwanted', transferId: 1 },
      {
        'pushed and claimed': unasked,
        'pushed and wanted': loads,
        waiting: ['over', 'loaded', 'tellCancel', 'forget'],
        pulling: loads,
        arriving: loads,
        computing: loads,
        closing: ['over', 'tellCancel'],
        'closing, blocks let go': ['over', 'loaded', 'tellCancel', 'forget'],
        'pulling again': loads,
        received: ['over', 'closeBuffer', 'forget'],
        loading: ['over', 'closeBuffer'],
        failed: ['over', 'forget'],
      },
    );
  });

  it('is computed here where P is gone, unless its blocks are here', () => {
    const lost = ['over', 'recompute', 'closeBuffer'] as const;
    const outcomes = {
      pushed: ['over', 'closeBuffer', 'forget'],
      'pushed and claimed': lost,
      'pushed and wanted': lost,
      waiting: ['over', 'recompute', 'loaded', 'forget'],
      pulling: lost,
      arriving: lost,
      computing: lost,
      closing: ['over', 'recompute'],
      'closing, blocks let go': ['over', 'recompute', 'loaded', 'forget'],
      'pulling again': lost,
    } as const;
    expectEach(
      { kind: 'cancelledByPeer' },
      { ...outcomes, 'received, not claimed': ['over', 'closeBuffer', 'forget'] },
    );
    // It is told nevertheless: it may be slow, and hold its blocks.
    const told = ['over', 'recompute', 'tellCancel', 'closeBuffer'] as const;
    expectEach(
      { kind: 'peerGone' },
      {
        pushed: outcomes.pushed,
        'pushed and claimed': told,
        'pushed and wanted': told,
        waiting: ['over', 'recompute', 'tellCancel', 'loaded', 'forget'],
        pulling: told,
        arriving: told,
        computing: told,
        closing: ['over', 'recompute', 'tellCancel'],
        'closing, blocks let go': ['over', 'recompute', 'tellCancel', 'loaded', 'forget'],
        'pulling again': told,
      },
    );
    // What P is being asked for, its new run is asked for.
    const {
      pushed,
      'pushed and claimed': claimed,
      'pushed and wanted': wanted,
      arriving,
      computing,
    } = outcomes;
    const arrivals = {
      pushed,
      'pushed and claimed': claimed,
      'pushed and wanted': wanted,
      arriving,
      computing,
    };
    expectEach({ kind: 'peerRestarted' }, arrivals);
  });

  it('ends by its deadlines', () => {
    const { unclaimed, room, load, stall } = DEADLINES;
    const reasonOf = (subject: Machine) =>
      subject.effects.flatMap((effect) => (effect.kind === 'recompute' ? [effect.reason] : []));
    for (const name of ['pushed', 'received, not claimed'] as const) {
      expect(STATES[name]().after(unclaimed).on(tick).kinds).toEqual(['closeBuffer', 'forget']);
    }
    const noRoom = STATES.waiting().after(room).on(tick);
    expect([reasonOf(noRoom), noRoom.kinds]).toEqual([['no_room'], expect.arrayContaining(['tellCancel'])]);
    const late = STATES.pulling().after(load).on(tick);
    expect([reasonOf(late), late.kinds]).toEqual([['late'], expect.arrayContaining(['tellCancel'])]);
    expect(STATES.arriving().after(stall).on(tick).kinds).toEqual(['closeBuffer']);
    expect(
      STATES.arriving()
        .after(stall)
        .on({ ...tick, progress: 1 }).kinds,
    ).toEqual([]);
    expect(STATES.received().after(load).on(tick).kinds).toEqual([]);
    for (const name of Object.keys(STATES) as StateName[]) expect(STATES[name]().on(tick).kinds).toEqual([]);
  });

  it('stalls where nothing has happened for a while, and not before its request is here', () => {
    const { room, stall, unclaimed } = DEADLINES;
    const waited = pulled().on({ kind: 'noSlots', mayWait: true }, wanted).after(room);
    expect(waited.on(slotsTaken, answered('sending'), tick).kinds).toEqual([]);
    expect(pushed().after(stall).on(tick).kinds).toEqual([]);
    expect(pushed().after(stall).on(claimed, tick).kinds).toEqual([]);
    expect(pushed().after(unclaimed).on(received, tick).kinds).toEqual([]);
    const some = { ...tick, progress: 1 };
    expect(STATES.arriving().on(some).after(stall).on(some).kinds).toEqual(['closeBuffer']);
  });

  it('that P is still computing is pulled again as often as it stalls, others once', () => {
    const stalls = (subject: Machine): number => {
      let ticket = TICKET;
      for (let round = 1; round < 5; round += 1) {
        subject.after(DEADLINES.stall).on(tick);
        if (subject.state.phase === 'over') return round;
        ticket += 1n;
        subject.on(copied(false), { kind: 'bufferClosed', nextTicket: ticket });
        subject.on(answered(subject.state.isComputing ? 'computing' : 'sending', 40, ticket));
      }
      return 5;
    };
    expect(stalls(STATES.arriving())).toBe(2);
    expect(stalls(STATES.computing())).toBe(5);
  });
});

/** What the driver does, with every answer in the hands of the test. */
class World {
  readonly subject: Machine;
  /** With the ticket of the buffer that is over them, last. */
  readonly taken = new Map<Slots, bigint>();
  readonly open = new Set<bigint>();
  readonly todo: ConsumerEffect[] = [];
  readonly wanted: number[] = [];
  readonly loaded: number[] = [];
  /** Sequences whose blocks the native threads write into, by the ticket of the buffer. */
  readonly loading = new Map<number, bigint>();
  numForgotten = 0;
  #lastTicket = 100n;

  constructor(isPushed: boolean) {
    const slots = slotsOf(NUM_BLOCKS);
    if (isPushed) {
      const buffer = { slots, ticket: TICKET, firstBlock: 0, isClosing: false };
      this.subject = machineOf(pushedTransfer(ABOUT, buffer, NOW));
      this.taken.set(slots, TICKET);
      this.open.add(TICKET);
    } else {
      this.subject = machineOf(pulledTransfer(ABOUT, NOW));
      this.on({ kind: 'claimed', transferIds: [1, 2] });
    }
  }

  /** Whether a sequence has asked and has no answer. */
  isWaiting(transferId: number): boolean {
    const timesIn = (ids: readonly number[]) => ids.filter((id) => id === transferId).length;
    return timesIn(this.wanted) > timesIn(this.loaded);
  }

  on(event: ConsumerEvent): void {
    if (event.kind === 'wanted') this.wanted.push(event.transferId);
    this.subject.on(event);
    for (const effect of this.subject.effects) this.#run(effect);
    const { buffer } = this.subject.state;
    for (const slots of this.taken.keys()) expect(slots).toBe(buffer?.slots);
    if (this.numForgotten > 0) expect(this.subject.state.phase).toBe('over');
  }

  /** Answers one of the effects that have an answer. */
  answer(which: number, isGood: boolean, state: PullState): void {
    const [effect] = this.todo.splice(which % this.todo.length, 1);
    if (effect === undefined) return;
    this.#lastTicket += 1n;
    const ticket = this.#lastTicket;
    switch (effect.kind) {
      case 'takeSlots':
        if (isGood) this.#give(effect.count, effect.firstBlock, ticket);
        else this.on({ kind: 'noSlots', mayWait: which % 2 === 0 });
        break;
      case 'closeBuffer':
        this.#letGo(effect.ticket, isGood);
        this.open.delete(effect.ticket);
        this.on({ kind: 'bufferClosed', nextTicket: ticket });
        break;
      case 'pull':
        if (isGood) this.on(answered(state, 8 + (which % 32), effect.ticket));
        else this.on({ kind: 'answered', ticket: effect.ticket, answer: 'gone' });
        break;
      case 'pullLater':
        this.on({ kind: 'pullAgain', ticket: effect.ticket });
        break;
    }
  }

  /** The native threads have filled the blocks that are loaded under a ticket, or filled them in part. */
  #letGo(ticket: bigint, isIntact: boolean): void {
    for (const [transferId, of] of [...this.loading]) {
      if (of !== ticket) continue;
      this.loading.delete(transferId);
      this.on({ kind: 'copied', transferId, isIntact });
    }
  }

  /** What comes into the open buffers. */
  arrive(kind: 'received' | 'corrupt', isIntact: boolean): void {
    for (const ticket of this.open) {
      this.on({ kind, ticket });
      if (kind === 'received') this.#letGo(ticket, isIntact);
    }
  }

  #give(count: number, firstBlock: number, ticket: bigint): void {
    const slots = slotsOf(count);
    this.taken.set(slots, ticket);
    this.on({ kind: 'slotsTaken', slots, firstBlock, ticket });
  }

  #run(effect: ConsumerEffect): void {
    if (effect.kind === 'giveSlots') {
      // Slots that were offered twice go back at once, whatever is loaded from the others.
      expect([...this.loading.values()]).not.toContain(this.taken.get(effect.slots));
      expect(this.taken.delete(effect.slots)).toBe(true);
    } else if (effect.kind === 'load') {
      expect(this.open.has(effect.ticket)).toBe(true);
      this.loading.set(effect.transferId, effect.ticket);
    } else if (effect.kind === 'openBuffer') {
      this.open.add(effect.buffer.ticket);
      this.taken.set(effect.buffer.slots, effect.buffer.ticket);
    } else if (effect.kind === 'forget') this.numForgotten += 1;
    else if (effect.kind === 'loaded') this.#answered(effect.transferId);
    else if (['takeSlots', 'closeBuffer', 'pull', 'pullLater'].includes(effect.kind)) {
      this.todo.push(effect);
    }
  }

  /** A sequence gets its blocks back: nothing may write into them any more. */
  #answered(transferId: number): void {
    expect(this.loading.has(transferId)).toBe(false);
    this.loaded.push(transferId);
  }
}

const WHATEVER: readonly ConsumerEvent[] = [
  { kind: 'claimed', transferIds: [1, 2] },
  { kind: 'unwanted', transferId: 1 },
  { kind: 'unwanted', transferId: 2 },
  { kind: 'ended' },
  { kind: 'cancelledByPeer' },
  { kind: 'peerGone' },
  { kind: 'peerRestarted' },
  { kind: 'slotsFreed' },
  tick,
];

describe('any sequence of events at the consumer', () => {
  const step = fc.oneof(
    { arbitrary: fc.constantFrom(...WHATEVER), weight: 2 },
    {
      arbitrary: fc.record({
        answer: fc.nat(),
        isGood: fc.boolean(),
        state: fc.constantFrom<PullState>('sending', 'computing', 'unknown', 'gone', 'resized', 'mismatch'),
      }),
      weight: 4,
    },
    { arbitrary: fc.record({ want: fc.constantFrom(1, 2), firstBlock: fc.nat(10) }), weight: 1 },
    {
      arbitrary: fc.record({
        bytes: fc.constantFrom<'received' | 'corrupt'>('received', 'corrupt'),
        isIntact: fc.boolean(),
      }),
      weight: 2,
    },
    { arbitrary: fc.record({ ms: fc.nat(150_000) }), weight: 1 },
  );

  it('leaks no slots, ends exactly once, and answers each sequence as often as it has asked', () => {
    fc.assert(
      fc.property(fc.boolean(), fc.array(step, { maxLength: 60 }), (isPushed, steps) => {
        const world = new World(isPushed);
        for (const next of steps) {
          if ('kind' in next) world.on(next);
          else if ('answer' in next) world.answer(next.answer, next.isGood, next.state);
          else if ('want' in next) {
            const { want: transferId, firstBlock } = next;
            if (world.isWaiting(transferId)) continue;
            world.on({ kind: 'wanted', transferId, firstBlock, blocks: BLOCKS });
          } else if ('ms' in next) world.subject.after(next.ms);
          else world.arrive(next.bytes, next.isIntact);
        }
        for (let round = 0; round < 2; round += 1) {
          world.on({ kind: 'ended' });
          while (world.todo.length > 0) world.answer(0, true, 'gone');
        }
        expect(world.taken.size).toBe(0);
        expect(world.open.size).toBe(0);
        expect(world.numForgotten).toBe(1);
        expect(world.loaded.toSorted()).toEqual(world.wanted.toSorted());
      }),
      { numRuns: 1000 },
    );
  });
});

function withSamples(...samples: readonly (readonly [SampleLoad['state'], number])[]): ConsumerTransfer {
  return {
    ...pulledTransfer(ABOUT, 0),
    samples: samples.map(([state, firstBlock], transferId) => ({
      transferId,
      state,
      firstBlock,
      blocks: [],
    })),
  };
}

describe('a transfer at the consumer as it begins', () => {
  it('has a buffer where P pushes it, and none where it is to be pulled', () => {
    expect(pushedTransfer(ABOUT, BUFFER, 5)).toMatchObject({
      phase: 'arriving',
      isPushed: true,
      buffer: BUFFER,
    });
    expect(pulledTransfer(ABOUT, 5)).toMatchObject({ phase: 'pulling', isPushed: false, buffer: null });
  });

  it('belongs to no request yet', () => {
    for (const transfer of [pushedTransfer(ABOUT, BUFFER, 5), pulledTransfer(ABOUT, 5)]) {
      expect(transfer).toMatchObject({ isClaimed: false, samples: [], retries: 0, lastActivity: 5 });
    }
  });
});

describe('the blocks of a transfer', () => {
  it('are expected until they are received or given up', () => {
    const phases = (['waiting', 'pulling', 'arriving', 'received', 'over'] as const).filter((phase) =>
      isExpected({ ...pulledTransfer(ABOUT, 0), phase }),
    );
    expect(phases).toEqual(['waiting', 'pulling', 'arriving']);
  });

  it('are missing from the first one on that some sequence lacks', () => {
    expect(firstMissing(withSamples(['wanted', 4], ['wanted', 2]))).toBe(2);
    expect(firstMissing(withSamples(['wanted', 4], ['done', 0]))).toBe(4);
  });

  it('are all missing while some sequence has not said what it lacks', () => {
    expect(firstMissing(withSamples(['wanted', 4], ['idle', 0]))).toBe(0);
    expect(firstMissing(withSamples(['done', 3]))).toBe(0);
    expect(firstMissing(withSamples())).toBe(0);
  });
});
