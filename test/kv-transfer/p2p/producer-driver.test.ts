// The producer's half over real control connections, with blocks that move in memory; the other end says what a test wants.

import { describe, expect, it } from 'vitest';
import { makeRequestId, type PairedRequestId, parseRequestId } from '../../../src/cluster/request-id.ts';
import type { SendType } from '../../../src/config/kv-transfer-config.ts';
import type { KvTransferCommand, RequestTransfer } from '../../../src/kv-transfer/connector.ts';
import type { Answer, MessageOf, Unnumbered } from '../../../src/kv-transfer/p2p/messages.ts';
import { KvProducer } from '../../../src/kv-transfer/p2p/producer-driver.ts';
import { until } from '../../helpers/until.ts';
import { COMPATIBILITY, closeLoopbacksAfterEach, Loopback } from './loopback.ts';

const TICKET = 0xabcn;
const HASH = '0'.repeat(32);
const NUM_BLOCKS = 3;
const SLOT_BYTES = 100;
const granted: Unnumbered<Answer> = { type: 'granted', ticket: '0000000000000abc' };

closeLoopbacksAfterEach();

interface Options {
  readonly sendType?: SendType;
  readonly holdBytes?: number;
  readonly deadlines?: Partial<Loopback['deadlines']>;
}

class Producer {
  readonly node: Loopback;
  readonly d: Loopback;
  readonly producer: KvProducer;
  readonly commands: KvTransferCommand[] = [];
  #lastTransferId = 0;

  private constructor(node: Loopback, d: Loopback, { sendType = 'PUT_ASYNC', holdBytes = 1000 }: Options) {
    this.node = node;
    this.d = d;
    this.producer = new KvProducer({
      ...{ mover: node.mover, peers: node.peers, notices: node.notices, deadlines: node.deadlines },
      ...{
        sendType,
        holdBytes,
        slotBytes: SLOT_BYTES,
        groups: COMPATIBILITY,
        engine: { applyTransfer: (command) => void this.commands.push(command) },
      },
    });
    node.onRequest = (peer, message) =>
      message.type === 'pull' ? this.producer.onPull(peer, message) : { type: 'full' };
    node.onNotice = (peer, notice) => this.producer.onNotice(peer, notice);
    node.onGone = (address) => this.producer.transfers.pushToPeer(address, { kind: 'peerGone' });
    node.mover.onLinkDown = (link) => this.producer.transfers.pushAll({ kind: 'linkDown', link });
  }

  static async start(options: Options = {}): Promise<Producer> {
    const { deadlines = {} } = options;
    return new Producer(await Loopback.start({ deadlines }), await Loopback.start(), options);
  }

  newId(): PairedRequestId {
    return parseRequestId(makeRequestId(this.node.address, this.d.address))!;
  }

  open(key: string, numBlocks = NUM_BLOCKS, numSamples = 1): RequestTransfer | null {
    this.#lastTransferId += 1;
    const about = { transferId: this.#lastTransferId, key, address: this.d.address, hash: HASH };
    return this.producer.open({ ...about, numTokens: 4 * numBlocks, numBlocks }, numSamples);
  }

  compute(transfer: RequestTransfer | null, numBlocks = NUM_BLOCKS): void {
    const transferId = transfer?.sequences[0]?.transferId ?? 0;
    for (let index = 0; index < numBlocks; index += 1)
      this.node.mover.save(transferId, index, `block ${index}`);
  }

  /** D asks for blocks. */
  async pull(key: string, more: Partial<MessageOf<'pull'>> = {}): Promise<Answer> {
    const range = { ticket: '0000000000000abc', first_block: 0, num_blocks: NUM_BLOCKS };
    return this.d.peers.get(this.node.address).request({ type: 'pull', key, hash: HASH, ...range, ...more });
  }

  /** D lets blocks come under the ticket. */
  receive(numBlocks = NUM_BLOCKS): void {
    const offsets = Float64Array.from({ length: numBlocks }, (_, slot) => slot);
    this.d.mover.openReceive(TICKET, { firstBlock: 0, offsets });
  }

  get receivedBlocks(): string[] {
    return [...this.d.mover.received.values()];
  }
}

describe('a producer that pushes', () => {
  it('reserves room, sends the blocks under the ticket, and frees them when D has them', async () => {
    const p = await Producer.start();
    p.d.onRequest = () => granted;
    p.receive();
    const transfer = p.open('k', NUM_BLOCKS, 2);
    expect(transfer?.sequences).toEqual([{ kind: 'send', transferId: 1, numTokens: 12 }, null]);
    p.compute(transfer);
    await until(() => p.receivedBlocks.length === NUM_BLOCKS);
    expect(p.d.heard).toMatchObject([
      { type: 'reserve', key: 'k', num_tokens: 12, num_blocks: 3, hash: HASH },
    ]);
    expect(p.producer.stats).toMatchObject({ holding: 1, delivered: 0 });
    p.d.notices.tell(p.node.address, { type: 'received', key: 'k' });
    await p.producer.delivered();
    expect(p.commands).toEqual([{ kind: 'release', transferId: 1 }]);
    expect(p.producer.stats).toMatchObject({ holding: 0, delivered: 1, bytes: 'block 0'.length * 3 });
    expect(p.node.mover.numOpen).toBe(0);
  });

  it('gives up where D is not there', async () => {
    const p = await Producer.start();
    await p.d.close();
    p.open('k');
    await p.producer.delivered();
    expect(p.producer.stats.failed).toBe(1);
  });

  it('gives up where D is of another kind', async () => {
    const p = await Producer.start();
    const alien = await Loopback.start({ own: { model: 'other' } });
    const about = { transferId: 9, key: 'k', address: alien.address, hash: HASH };
    p.producer.open({ ...about, numTokens: 4, numBlocks: 1 }, 1);
    await p.producer.delivered();
    expect(p.producer.stats.failed).toBe(1);
    expect(p.node.warnings).toHaveLength(1);
  });

  it('gives up where no data link comes about, and tells D', async () => {
    const p = await Producer.start();
    p.d.onRequest = () => granted;
    p.d.mover.close();
    p.open('k');
    await p.producer.delivered();
    expect(p.producer.stats.failed).toBe(1);
    await until(() => p.d.types.includes('cancel'));
  });

  it('makes a link that dies anew once', async () => {
    const p = await Producer.start();
    p.d.onRequest = () => granted;
    p.open('k');
    await until(() => p.node.mover.numLinks === 1);
    p.node.mover.disconnect(1);
    await until(() => p.node.mover.isUp(2));
    p.node.mover.disconnect(2);
    await p.producer.delivered();
    expect(p.producer.stats.failed).toBe(1);
  });

  it('with PUT answers its request when D has the blocks', async () => {
    const p = await Producer.start({ sendType: 'PUT' });
    p.d.onRequest = () => granted;
    p.receive();
    const transfer = p.open('k');
    p.compute(transfer);
    const answerable = transfer?.answerable().then(() => p.producer.stats.delivered);
    await until(() => p.receivedBlocks.length === NUM_BLOCKS);
    p.d.notices.tell(p.node.address, { type: 'received', key: 'k' });
    expect(await answerable).toBe(1);
  });

  it('keeps D pinned until the transfer is over', async () => {
    const p = await Producer.start();
    p.open('k');
    const peer = p.node.peers.get(p.d.address);
    expect(peer.pins.size).toBe(1);
    await until(() => p.d.heard.length === 1);
    p.d.notices.tell(p.node.address, { type: 'cancel', key: 'k' });
    await until(() => peer.pins.size === 0);
    expect(p.producer.size).toBe(0);
  });

  it('ends what is open with a D that is gone', async () => {
    const p = await Producer.start();
    p.open('k');
    await until(() => p.d.heard.length === 1);
    await p.d.close();
    await p.producer.delivered();
    expect(p.producer.stats.failed).toBe(1);
  });
});

describe('a producer that is pulled from', () => {
  it('sends from the first block that D lacks', async () => {
    const p = await Producer.start({ sendType: 'GET' });
    p.d.mover.openReceive(TICKET, { firstBlock: 1, offsets: Float64Array.of(0, 1) });
    const transfer = p.open('k');
    p.compute(transfer);
    expect(await p.pull('k', { first_block: 1 })).toMatchObject({ type: 'pulled', state: 'computing' });
    expect(p.node.peers.get(p.d.address).pins.size).toBe(1);
    await until(() => p.receivedBlocks.length === 2);
    expect(p.receivedBlocks).toEqual(['block 1', 'block 2']);
    expect(p.d.heard).toEqual([]);
  });

  it('tells a transfer that is over from one that it does not know', async () => {
    const p = await Producer.start({ sendType: 'GET' });
    p.open('over')?.end(false);
    expect(await p.pull('over')).toMatchObject({ state: 'gone', num_blocks: 0 });
    expect(await p.pull('unknown')).toMatchObject({ state: 'unknown', num_blocks: 0 });
  });

  it('sends nothing where D expects another prompt or another size', async () => {
    const p = await Producer.start({ sendType: 'GET' });
    p.receive();
    p.compute(p.open('k'));
    expect(await p.pull('k', { hash: 'f'.repeat(32) })).toMatchObject({ state: 'mismatch' });
    expect(await p.pull('k', { num_blocks: 9 })).toMatchObject({ state: 'resized', num_blocks: 3 });
    expect([p.node.mover.numConnects, p.node.peers.get(p.d.address).pins.size]).toEqual([0, 0]);
  });

  it('has nothing for an instance that the key does not name', async () => {
    const p = await Producer.start({ sendType: 'GET' });
    const thief = await Loopback.start();
    p.compute(p.open('k'));
    const range = { ticket: '0000000000000abc', first_block: 0, num_blocks: NUM_BLOCKS };
    const peer = thief.peers.get(p.node.address);
    expect(await peer.request({ type: 'pull', key: 'k', hash: HASH, ...range })).toMatchObject({
      state: 'unknown',
    });
    await peer.request({ type: 'cancel', key: 'k' });
    expect(p.producer.size).toBe(1);
  });

  it('gives up the oldest transfers where its memory is full, but none that D pulls', async () => {
    const p = await Producer.start({ sendType: 'GET', holdBytes: 2 * NUM_BLOCKS * SLOT_BYTES });
    for (const key of ['old', 'pulled']) p.open(key);
    expect(await p.pull('pulled')).toMatchObject({ state: 'computing' });
    const keys = () => [...p.producer.transfers].map(({ transfer }) => transfer.key);
    p.open('new');
    expect(keys()).toEqual(['old', 'pulled', 'new']);
    p.open('newer');
    expect(keys()).toEqual(['pulled', 'new', 'newer']);
    expect(p.producer.stats.expired).toBe(1);
  });

  it('sends what is computed already', async () => {
    const p = await Producer.start({ sendType: 'GET' });
    p.receive();
    const transfer = p.open('k');
    p.compute(transfer);
    transfer?.end(true);
    expect(await p.pull('k')).toMatchObject({ state: 'sending' });
    await until(() => p.receivedBlocks.length === NUM_BLOCKS);
  });

  it('refuses to hold more than its memory, and says so to D', async () => {
    const p = await Producer.start({ sendType: 'GET', holdBytes: NUM_BLOCKS * SLOT_BYTES - 1 });
    expect(p.open('k')).toBeNull();
    expect(p.producer.stats).toMatchObject({ expired: 1, holding: 0 });
    expect(await p.pull('k')).toMatchObject({ state: 'gone' });
    expect(p.open('smaller', NUM_BLOCKS - 1)).not.toBeNull();
    const pushes = await Producer.start({ sendType: 'PUT', holdBytes: 0 });
    expect(pushes.open('k')).not.toBeNull();
  });

  it('gives up a transfer that nobody asks for', async () => {
    const p = await Producer.start({ sendType: 'GET', deadlines: { hold: 0 } });
    p.open('k')?.end(true);
    p.producer.sweep();
    await p.producer.delivered();
    expect(p.producer.stats.expired).toBe(1);
  });
});

describe('the transfers of a producer', () => {
  it('have one key each, which is free again when one is over', async () => {
    const p = await Producer.start({ sendType: 'GET' });
    const first = p.open('k');
    expect(p.open('k')).toBeNull();
    first?.end(false);
    expect(p.open('k')).not.toBeNull();
    expect(await p.pull('k')).toMatchObject({ state: 'computing' });
  });

  it('of one request end together', async () => {
    const p = await Producer.start({ sendType: 'GET' });
    const [id, other] = [p.newId(), p.newId()];
    for (const key of [`${id.id}#0`, `${id.id}#1`, `${other.id}#0`]) p.open(key);
    p.producer.cancel(id);
    await until(() => p.producer.size === 1);
    expect(p.producer.stats.cancelled).toBe(2);
  });

  it('end when the producer closes', async () => {
    const p = await Producer.start({ sendType: 'GET' });
    const answers = ['a', 'b'].map((key) => p.open(key)?.answerable());
    p.producer.close();
    await Promise.all([p.producer.delivered(), ...answers]);
    expect(p.commands.map(({ transferId }) => transferId)).toEqual([1, 2]);
  });

  it('are delivered at once where there are none', async () => {
    const p = await Producer.start();
    await p.producer.delivered();
  });
});
