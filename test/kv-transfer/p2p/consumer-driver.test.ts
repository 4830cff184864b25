// The consumer's half over real control connections, with blocks that move in memory; the other end is a loopback instance
// that says and sends what a test wants.

import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { makeRequestId, type PairedRequestId, parseRequestId } from '../../../src/cluster/request-id.ts';
import type { KvTransferCommand, RequestTransfer } from '../../../src/kv-transfer/connector.ts';
import { KvConsumer } from '../../../src/kv-transfer/p2p/consumer-driver.ts';
import type { Answer, Identity, MessageOf, Unnumbered } from '../../../src/kv-transfer/p2p/messages.ts';
import { SlotPool } from '../../../src/kv-transfer/p2p/slot-pool.ts';
import { collectGarbage } from '../../helpers/collect-garbage.ts';
import { until } from '../../helpers/until.ts';
import { COMPATIBILITY, closeLoopbacksAfterEach, Loopback } from './loopback.ts';

const HASH = '0'.repeat(32);
const NUM_TOKENS = 12;
const NUM_BLOCKS = 3;
const SLOT_BYTES = 100;
const BLOCKS = [40, 41, 42, 43];
const SENT = ['block 0', 'block 1', 'block 2'];
const HOUR_MS = 3_600_000;

closeLoopbacksAfterEach();
afterEach(() => {
  vi.useRealTimers();
});

interface Options {
  readonly bufferSlots?: number;
  readonly poolSlots?: number;
  readonly deadlines?: Partial<Loopback['deadlines']>;
  /** What P says of itself. */
  readonly ofP?: Partial<Identity>;
}

class Consumer {
  readonly node: Loopback;
  readonly p: Loopback;
  readonly consumer: KvConsumer;
  readonly slots: SlotPool;
  readonly commands: KvTransferCommand[] = [];
  #lastSend = 0;
  #lastTransferId = 0;

  private constructor(node: Loopback, p: Loopback, { bufferSlots = 12, poolSlots = 0 }: Options) {
    this.node = node;
    this.p = p;
    this.slots = new SlotPool(bufferSlots * SLOT_BYTES, poolSlots * SLOT_BYTES, SLOT_BYTES);
    this.consumer = new KvConsumer({
      ...{
        mover: node.mover,
        peers: node.peers,
        notices: node.notices,
        deadlines: node.deadlines,
        slots: this.slots,
        groups: COMPATIBILITY,
      },
      engine: { applyTransfer: (command) => void this.commands.push(command) },
    });
    node.onRequest = (peer, message) =>
      message.type === 'reserve' ? this.consumer.onReserve(peer, message) : { type: 'full' };
    node.onNotice = (peer, { key }) => this.consumer.onCancel(peer, key);
    node.onGone = (address) => this.consumer.transfers.pushToPeer(address, { kind: 'peerGone' });
  }

  static async start(options: Options = {}): Promise<Consumer> {
    const { deadlines = {}, ofP = {} } = options;
    return new Consumer(await Loopback.start({ deadlines }), await Loopback.start({ own: ofP }), options);
  }

  newId(): PairedRequestId {
    return parseRequestId(makeRequestId(this.p.address, this.node.address))!;
  }

  newKey(): string {
    return `${this.newId().id}#0`;
  }

  /** A request has come. */
  open(key: string, { hash = HASH, numTokens = NUM_TOKENS, numSamples = 1 } = {}): RequestTransfer | null {
    const transferIds = Array.from({ length: numSamples }, () => ++this.#lastTransferId);
    return this.consumer.open({ key, hash, address: this.p.address, numTokens }, transferIds);
  }

  /** A request has come that wants all blocks. */
  load(key: string, blocks: readonly number[] = BLOCKS): RequestTransfer | null {
    const transfer = this.open(key);
    const transferId = transfer?.sequences[0]?.transferId ?? 0;
    this.consumer.onTransferEvent({ kind: 'load', transferId, firstBlock: 0, blocks });
    return transfer;
  }

  /** Resolves with the tokens that came for a transfer. */
  async loaded(transferId: number): Promise<number> {
    const isAnswer = (command: KvTransferCommand) => command.transferId === transferId;
    await until(() => this.commands.some(isAnswer));
    const command = this.commands.find(isAnswer);
    return command?.kind === 'loaded' ? command.numTokens : -1;
  }

  /** P asks for room. */
  reserve(key: string, more: Partial<MessageOf<'reserve'>> = {}): Promise<Answer> {
    const size = { num_tokens: NUM_TOKENS, num_blocks: NUM_BLOCKS };
    return this.p.peers
      .get(this.node.address)
      .request({ type: 'reserve', key, hash: HASH, ...size, ...more });
  }

  /** P sends all blocks under a ticket. */
  async send(ticket: string, firstBlock = 0): Promise<void> {
    const { mover } = this.p;
    this.#lastSend += 1;
    const link = await mover.connect(this.node.own.endpoints);
    mover.openSend(this.#lastSend, NUM_BLOCKS);
    for (const [index, block] of SENT.entries()) mover.save(this.#lastSend, index, block);
    mover.grant(this.#lastSend, link ?? 0, BigInt(`0x${ticket}`), firstBlock);
  }

  /** P has all blocks, and sends them when they are pulled. */
  sendWhenPulled(): void {
    this.p.onRequest = (_, message) => {
      if (message.type === 'pull') void this.send(message.ticket, message.first_block);
      return pulled('sending');
    };
  }

  get pulls(): MessageOf<'pull'>[] {
    return this.p.heard.flatMap((message) => (message.type === 'pull' ? [message] : []));
  }

  contents(blocks: readonly number[] = BLOCKS): (string | undefined)[] {
    return blocks.slice(0, NUM_BLOCKS).map((block) => this.node.mover.kv.get(block));
  }

  get isIdle(): boolean {
    return this.slots.numTaken === 0 && this.node.mover.numOpen === 0 && this.consumer.transfers.size === 0;
  }
}

function pulled(state: MessageOf<'pulled'>['state'], numTokens = NUM_TOKENS): Unnumbered<Answer> {
  return { type: 'pulled', state, num_tokens: numTokens, num_blocks: Math.ceil(numTokens / 4) };
}

describe('a consumer that P pushes to', () => {
  it('grants a ticket, copies what came into the blocks of its request, and tells P', async () => {
    const d = await Consumer.start();
    const key = d.newKey();
    const answer = await d.reserve(key);
    expect(answer).toMatchObject({ type: 'granted', ticket: expect.stringMatching(/^[0-9a-f]{16}$/) });
    await d.send(answer.type === 'granted' ? answer.ticket : '');
    await until(() => d.p.types.includes('received'));
    d.load(key);
    expect(await d.loaded(1)).toBe(NUM_TOKENS);
    expect(d.contents()).toEqual(SENT);
    await until(() => d.isIdle);
    expect(d.consumer.stats).toMatchObject({ pushed: 1, pulled: 0, viaBuffer: 1, loadedTokens: NUM_TOKENS });
  });

  it('grants the same ticket where the reservation comes twice, and nothing to another prompt', async () => {
    const d = await Consumer.start();
    const key = d.newKey();
    const first = await d.reserve(key);
    const second = await d.reserve(key);
    expect(first.type === 'granted' && second.type === 'granted' && second.ticket).toBe(
      first.type === 'granted' && first.ticket,
    );
    expect(d.slots.numTaken).toBe(1);
    expect(await d.reserve(key, { hash: 'f'.repeat(32) })).toMatchObject({
      type: 'refused',
      code: 'unasked',
    });
  });

  it('refuses sizes that do not fit together', async () => {
    const d = await Consumer.start();
    const nothing = { num_tokens: 0, num_blocks: 0 };
    for (const size of [{ num_tokens: 0 }, nothing, { num_tokens: 13 }, { num_blocks: 4 }]) {
      expect(await d.reserve(d.newKey(), size)).toMatchObject({ type: 'refused', code: 'malformed' });
    }
    expect(d.isIdle).toBe(true);
    expect(await d.reserve(d.newKey(), { num_tokens: 1, num_blocks: 1 })).toMatchObject({ type: 'granted' });
  });

  it('lets P hold what its request waits for or pulls already', async () => {
    const d = await Consumer.start({ bufferSlots: NUM_BLOCKS });
    d.p.onRequest = () => pulled('sending');
    const [pulls, waits] = [d.newKey(), d.newKey()];
    for (const key of [pulls, waits]) d.load(key);
    await until(() => d.consumer.transfers.get(pulls)?.transfer.phase === 'arriving');
    for (const key of [pulls, waits]) expect(await d.reserve(key)).toMatchObject({ type: 'full' });
    expect(d.slots.numTaken).toBe(1);
  });

  it('grants nothing for blocks that it has', async () => {
    const d = await Consumer.start();
    const key = d.newKey();
    const answer = await d.reserve(key);
    await d.send(answer.type === 'granted' ? answer.ticket : '');
    await until(() => d.p.types.includes('received'));
    expect(await d.reserve(key)).toMatchObject({ type: 'refused', code: 'unasked' });
  });

  it('is full where neither buffer nor pool has the slots', async () => {
    const d = await Consumer.start({ bufferSlots: 3, poolSlots: 4 });
    const answers = [await d.reserve(d.newKey()), await d.reserve(d.newKey()), await d.reserve(d.newKey())];
    expect(answers.map(({ type }) => type)).toEqual(['granted', 'granted', 'full']);
    expect(d.consumer.stats).toMatchObject({ receiveBuffers: 2, bufferUsedBytes: 300, poolUsedBytes: 300 });
  });

  it('grants nothing for a request that is over', async () => {
    const d = await Consumer.start();
    const [cancelled, discarded] = [d.newId(), d.newKey()];
    d.consumer.cancel(cancelled);
    d.consumer.discard(discarded, d.p.address);
    const ended = d.newKey();
    d.open(ended)?.end(true);
    await until(() => d.isIdle);
    for (const key of [`${cancelled.id}#4`, discarded, ended]) {
      expect(await d.reserve(key)).toMatchObject({ type: 'refused', code: 'unasked' });
    }
  });

  it('frees what P takes back, but not for an instance that the key does not name', async () => {
    const d = await Consumer.start();
    const thief = await Loopback.start();
    const key = d.newKey();
    await d.reserve(key);
    await thief.peers.get(d.node.address).request({ type: 'cancel', key });
    expect(d.isIdle).toBe(false);
    d.p.notices.tell(d.node.address, { type: 'cancel', key });
    await until(() => d.isIdle);
  });

  it('computes the prompt itself where P dies before it has sent all', async () => {
    const d = await Consumer.start();
    const key = d.newKey();
    await d.reserve(key);
    d.load(key);
    await d.p.close();
    expect(await d.loaded(1)).toBe(0);
    expect(d.consumer.stats.recomputed.peer_gone).toBe(1);
  });

  it('frees what no request comes for', async () => {
    const d = await Consumer.start({ deadlines: { unclaimed: 0 } });
    await d.reserve(d.newKey());
    d.consumer.sweep();
    await until(() => d.isIdle);
  });

  it.each([
    ['back', -HOUR_MS],
    ['forward', HOUR_MS],
  ])('frees what no request comes for in time, where the clock is set %s meanwhile', async (_, change) => {
    const unclaimed = 1000;
    const d = await Consumer.start({ deadlines: { unclaimed } });
    vi.useFakeTimers({ toFake: ['Date'] });
    await d.reserve(d.newKey());
    vi.setSystemTime(Date.now() + change);
    const changedAt = performance.now();
    await until(() => {
      d.consumer.sweep();
      return d.isIdle || performance.now() - changedAt > 2 * unclaimed;
    });
    expect(d.isIdle).toBe(true);
    expect(performance.now() - changedAt).toBeGreaterThan(unclaimed / 2);
  });

  it('frees what a sequence has no use for that has all blocks', async () => {
    const d = await Consumer.start();
    const key = d.newKey();
    await d.reserve(key);
    d.open(key);
    d.consumer.onTransferEvent({ kind: 'loadEnded', transferId: 1 });
    await until(() => d.isIdle && d.p.types.includes('cancel'));
  });

  it('frees what a request that computes its prompt itself has no use for, and tells P', async () => {
    const d = await Consumer.start();
    const key = d.newKey();
    await d.reserve(key);
    d.consumer.discard(key, d.p.address);
    await until(() => d.isIdle && d.p.types.includes('cancel'));
  });

  it('tells P that it has no use for its blocks although P cannot be reached at the moment', async () => {
    const d = await Consumer.start({ deadlines: { noticeRetry: 10 } });
    const key = d.newKey();
    await d.p.close();
    d.consumer.discard(key, d.p.address);
    const again = await Loopback.start({ port: d.p.port });
    await until(() => again.types.includes('cancel'));
  });
});

describe('a consumer that pulls', () => {
  it('asks P for all blocks under a ticket of its own', async () => {
    const d = await Consumer.start();
    d.sendWhenPulled();
    const key = d.newKey();
    d.load(key);
    expect(await d.loaded(1)).toBe(NUM_TOKENS);
    expect(d.contents()).toEqual(SENT);
    expect(d.pulls).toMatchObject([{ key, hash: HASH, first_block: 0, num_blocks: NUM_BLOCKS }]);
    expect(d.consumer.stats).toMatchObject({ pushed: 0, pulled: 1 });
    await until(() => d.isIdle && d.p.types.includes('received'));
  });

  it('asks a P of smaller blocks for as many as its sequence lacks', async () => {
    const d = await Consumer.start({ bufferSlots: NUM_BLOCKS, ofP: { block_size: 2, piece_bytes: 4 } });
    const [pushed, key] = [d.newKey(), d.newKey()];
    expect((await d.reserve(pushed, { num_blocks: 2 * NUM_BLOCKS })).type).toBe('granted');
    const transferId = d.open(key)?.sequences[0]?.transferId ?? 0;
    d.consumer.onTransferEvent({ kind: 'load', transferId, firstBlock: 1, blocks: BLOCKS });
    d.consumer.discard(pushed, d.p.address);
    await until(() => d.pulls.length === 1);
    expect(d.pulls).toMatchObject([{ key, first_block: 2, num_blocks: 2 * NUM_BLOCKS }]);
  });

  it('copies the blocks for every sequence of its request', async () => {
    const d = await Consumer.start();
    d.sendWhenPulled();
    d.open(d.newKey(), { numSamples: 2 });
    for (const [transferId, blocks] of [[1, BLOCKS] as const, [2, [50, 51, 52, 53]] as const]) {
      d.consumer.onTransferEvent({ kind: 'load', transferId, firstBlock: 0, blocks });
    }
    expect(await Promise.all([d.loaded(1), d.loaded(2)])).toEqual([NUM_TOKENS, NUM_TOKENS]);
    expect(d.contents([50, 51, 52])).toEqual(SENT);
    expect(d.pulls).toHaveLength(1);
  });

  it('asks a P that does not know the transfer yet until it does', async () => {
    const d = await Consumer.start({ deadlines: { unknownRetry: 1, unknown: 20_000 } });
    d.p.onRequest = () => {
      if (d.pulls.length === 3) d.sendWhenPulled();
      return pulled('unknown', 0);
    };
    d.load(d.newKey());
    expect(await d.loaded(1)).toBe(NUM_TOKENS);
    expect(d.pulls).toHaveLength(4);
  });

  it('pulls a damaged block once more, under another ticket', async () => {
    const d = await Consumer.start();
    d.sendWhenPulled();
    d.node.mover.damage = (block) => {
      d.node.mover.damage = (next) => next;
      return `${block}?`;
    };
    d.load(d.newKey());
    expect(await d.loaded(1)).toBe(NUM_TOKENS);
    expect(new Set(d.pulls.map(({ ticket }) => ticket)).size).toBe(2);
    expect(d.consumer.stats.corruptLayerBlocks).toBe(1);
    expect(d.slots.numTaken).toBeLessThanOrEqual(1);
  });

  it('waits while blocks come, and pulls again when no more do', async () => {
    const d = await Consumer.start({ deadlines: { stall: 1 } });
    d.p.onRequest = () => pulled('sending');
    const key = d.newKey();
    d.load(key);
    const phase = () => d.consumer.transfers.get(key)?.transfer.phase;
    await until(() => phase() === 'arriving');
    await d.send(d.pulls[0]!.ticket, NUM_BLOCKS - 1);
    await sleep(2);
    d.consumer.sweep();
    expect(phase()).toBe('arriving');
    await sleep(2);
    d.consumer.sweep();
    await until(() => d.pulls.length === 2);
  });

  it('keeps nothing of a transfer that is over', async () => {
    const d = await Consumer.start();
    d.sendWhenPulled();
    const key = d.newKey();
    d.load(key);
    const transfer = new WeakRef(d.consumer.transfers.get(key)!);
    await d.loaded(1);
    await until(() => {
      collectGarbage();
      return transfer.deref() === undefined;
    });
  });

  it('computes its prompt itself where P is not there', async () => {
    const d = await Consumer.start();
    await d.p.close();
    d.load(d.newKey());
    expect(await d.loaded(1)).toBe(0);
    expect(d.consumer.stats.recomputed.peer_gone).toBe(1);
    await until(() => d.slots.numTaken === 0);
  });

  it.each([
    ['says something else', 'mismatch', { type: 'full' }],
    ['has given it up', 'unknown', pulled('gone', 0)],
  ] as const)('computes its prompt itself where P %s', async (_, reason, answer) => {
    const d = await Consumer.start();
    d.p.onRequest = () => answer;
    d.load(d.newKey());
    expect(await d.loaded(1)).toBe(0);
    expect(d.consumer.stats.recomputed[reason]).toBe(1);
    await until(() => d.slots.numTaken === 0);
  });

  it('computes its prompt itself where P is of another kind', async () => {
    const d = await Consumer.start();
    const alien = await Loopback.start({ own: { model: 'other' } });
    d.consumer.open({ key: d.newKey(), hash: HASH, address: alien.address, numTokens: NUM_TOKENS }, [1]);
    await until(() => d.consumer.stats.recomputed.mismatch === 1);
    expect(d.node.warnings).toHaveLength(1);
  });

  it('computes its prompt itself where P dies meanwhile', async () => {
    const d = await Consumer.start();
    d.p.onRequest = () => pulled('sending');
    d.load(d.newKey());
    await until(() => d.pulls.length === 1);
    await d.p.close();
    expect(await d.loaded(1)).toBe(0);
    expect(d.consumer.stats.recomputed.peer_gone).toBe(1);
  });

  it('waits for slots in the order of the requests', async () => {
    const d = await Consumer.start({ bufferSlots: NUM_BLOCKS + 1 });
    d.p.onRequest = () => pulled('sending');
    for (const _ of [1, 2, 3]) d.load(d.newKey());
    await until(() => d.pulls.length === 1);
    // A smaller transfer would fit, and is not let in before those that wait.
    expect(await d.reserve(d.newKey(), { num_tokens: 4, num_blocks: 1 })).toMatchObject({ type: 'full' });
    await d.send(d.pulls[0]!.ticket);
    expect(await d.loaded(1)).toBe(NUM_TOKENS);
    await until(() => d.pulls.length === 2);
    await d.send(d.pulls[1]!.ticket);
    expect(await d.loaded(2)).toBe(NUM_TOKENS);
    await until(() => d.pulls.length === 3);
  });

  it('keeps free slots for the one that waits, however few the next one wants', async () => {
    const d = await Consumer.start({ bufferSlots: 6 });
    d.sendWhenPulled();
    const [pushed, big, small] = [d.newKey(), d.newKey(), d.newKey()];
    expect((await d.reserve(pushed)).type).toBe('granted');
    d.open(big, { numTokens: 20 });
    d.open(small);
    const phase = (key: string) => d.consumer.transfers.get(key)?.transfer.phase;
    expect([phase(big), phase(small)]).toEqual(['waiting', 'waiting']);
    d.consumer.discard(pushed, d.p.address);
    await until(() => phase(big) !== 'waiting');
    expect(phase(small)).toBe('waiting');
  });

  it('offers free slots to the next one when the one that waited longest leaves', async () => {
    const d = await Consumer.start({ bufferSlots: 6 });
    d.sendWhenPulled();
    const [pushed, big, small] = [d.newKey(), d.newKey(), d.newKey()];
    expect((await d.reserve(pushed)).type).toBe('granted');
    const transfer = d.open(big, { numTokens: 20 });
    d.open(small);
    expect(d.consumer.transfers.get(small)?.transfer.phase).toBe('waiting');
    transfer?.end(false);
    expect(d.consumer.transfers.get(small)?.transfer.phase).toBe('pulling');
  });

  it('gives up the wait for slots at its deadline', async () => {
    const d = await Consumer.start({ bufferSlots: 3, deadlines: { room: 0 } });
    d.p.onRequest = () => pulled('computing');
    for (const _ of [1, 2]) d.load(d.newKey());
    d.consumer.sweep();
    expect(await d.loaded(2)).toBe(0);
    expect(d.consumer.stats.recomputed.no_room).toBe(1);
  });

  it('keeps P pinned while blocks are expected of it', async () => {
    const d = await Consumer.start();
    d.p.onRequest = () => pulled('sending');
    d.load(d.newKey());
    const peer = d.node.peers.get(d.p.address);
    await until(() => d.pulls.length === 1);
    expect(peer.pins.size).toBe(1);
    await d.send(d.pulls[0]!.ticket);
    await d.loaded(1);
    // Until P has heard that all has come.
    await until(() => peer.pins.size === 0);
  });
});

describe('a request at the consumer', () => {
  it('is an ordinary one where another one has its key', async () => {
    const d = await Consumer.start();
    const key = d.newKey();
    expect(d.open(key)).not.toBeNull();
    expect(d.open(key)).toBeNull();
  });

  it('is an ordinary one where its blocks can never fit, and P is told', async () => {
    const d = await Consumer.start({ bufferSlots: 2, poolSlots: 2 });
    expect(d.open(d.newKey())).toBeNull();
    expect(d.consumer.stats.recomputed.no_room).toBe(1);
    await until(() => d.p.types.includes('cancel'));
  });

  it('is an ordinary one where P has pushed another prompt', async () => {
    const d = await Consumer.start();
    const key = d.newKey();
    await d.reserve(key);
    expect(d.open(key, { hash: 'f'.repeat(32) })).toBeNull();
    expect(d.consumer.stats.recomputed.mismatch).toBe(1);
    await until(() => d.isIdle);
  });

  it('does not end another one that has its key where it computes its prompt itself', async () => {
    const d = await Consumer.start();
    d.p.onRequest = () => pulled('computing');
    const key = d.newKey();
    d.load(key);
    await until(() => d.pulls.length === 1);
    d.consumer.discard(key, d.p.address);
    await d.send(d.pulls[0]!.ticket);
    expect(await d.loaded(1)).toBe(NUM_TOKENS);
    expect(d.p.types).not.toContain('cancel');
  });

  it('that has ended gets an answer to a load that comes later', async () => {
    const d = await Consumer.start();
    const transfer = d.open(d.newKey());
    transfer?.end(false);
    d.consumer.onTransferEvent({ kind: 'load', transferId: 1, firstBlock: 0, blocks: BLOCKS });
    d.consumer.onTransferEvent({ kind: 'loadEnded', transferId: 1 });
    expect(d.commands).toEqual([{ kind: 'loaded', transferId: 1, numTokens: 0 }]);
    await until(() => d.isIdle);
  });

  it('that ends while blocks come gets its blocks back when nothing writes into them any more', async () => {
    const d = await Consumer.start();
    d.p.onRequest = () => pulled('sending');
    const transfer = d.load(d.newKey());
    await until(() => d.pulls.length === 1);
    transfer?.end(false);
    d.consumer.onTransferEvent({ kind: 'loadEnded', transferId: 1 });
    // The mover has not let go of them yet.
    expect(d.commands).toEqual([]);
    expect(await d.loaded(1)).toBe(0);
    await until(() => d.isIdle && d.p.types.includes('cancel'));
    await d.send(d.pulls[0]!.ticket);
    expect([d.commands.length, d.contents()]).toEqual([1, [undefined, undefined, undefined]]);
  });

  it('can be answered at once', async () => {
    const d = await Consumer.start();
    await d.open(d.newKey())?.answerable();
  });

  it('ends when the consumer closes', async () => {
    const d = await Consumer.start();
    d.p.onRequest = () => pulled('computing');
    d.load(d.newKey());
    d.consumer.close();
    expect(await d.loaded(1)).toBe(0);
    await until(() => d.isIdle);
  });
});
