// Blocks between two movers, with native threads. What the threads do among themselves is tested in ../native-*.test.ts.

import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/errors.ts';
import { NativeMover } from '../../../src/kv-transfer/p2p/native-mover.ts';
import { loadNative } from '../../../src/native/native.ts';
import type { NativeKvMemory } from '../../../src/native/native-transfer.ts';
import { closedAfterwards } from '../../helpers/closed-afterwards.ts';
import { needsNative } from '../../helpers/needs.ts';
import { until } from '../../helpers/until.ts';

const NUM_LAYERS = 2;
const LAYER_BLOCK_BYTES = 64;
const SLOT_BYTES = NUM_LAYERS * LAYER_BLOCK_BYTES;
const TICKET = 0xabcn;

const opened = closedAfterwards();

type Options = Partial<ConstructorParameters<typeof NativeMover>[0]>;

/** A mover over KV memory of its own. */
class Node {
  readonly memory: NativeKvMemory;
  readonly mover: NativeMover;
  /** What it has told, and of which send, receive or link. */
  readonly told: (readonly [what: string, of: number | bigint])[] = [];

  constructor(options: Options = {}) {
    const { KvMemory } = loadNative();
    this.memory = new KvMemory(NUM_LAYERS, 8, LAYER_BLOCK_BYTES);
    this.mover = new NativeMover(
      {
        parts: [
          { layers: { first: 0, end: NUM_LAYERS }, heads: { first: 0, end: 1 }, token: this.memory.share() },
        ],
        receiveBytes: 8 * SLOT_BYTES,
        transport: 'auto',
        listenIp: '127.0.0.1',
        connectTimeoutMs: 10_000,
        ...options,
      },
      (link) => void this.told.push(['linkDown', link]),
    );
    opened(this.mover);
  }

  openSend(transferId: number, numBlocks: number): void {
    this.mover.openSend(transferId, numBlocks, (event) => void this.told.push([event, transferId]));
  }

  openReceive(firstBlock: number, offsets: Float64Array): void {
    this.mover.openReceive(TICKET, { firstBlock, offsets }, (event) => void this.told.push([event, TICKET]));
  }

  load(firstBlock: number, block: number): Promise<boolean> {
    return new Promise((resolve) => this.mover.load(TICKET, firstBlock, Int32Array.of(block), resolve));
  }

  /** Computes blocks of a send. */
  save(transferId: number, blocks: readonly number[]): void {
    this.memory.onKvStep(Int32Array.of(transferId, 0, blocks.length, ...blocks));
    for (let layer = 0; layer < NUM_LAYERS; layer += 1) {
      for (const block of blocks) this.memory.write(layer, block, contentsOf(layer, block));
      this.memory.onKvLayerSaved(layer);
    }
  }

  holds(block: number, as: number): boolean {
    return [0, 1].every((layer) => contentsOf(layer, as).equals(this.memory.read(layer, block)));
  }
}

function contentsOf(layer: number, block: number): Buffer {
  return Buffer.alloc(LAYER_BLOCK_BYTES, 1 + layer * 16 + block);
}

const slots = (count: number) => Float64Array.from({ length: count }, (_, slot) => slot * SLOT_BYTES);

describe('a mover', needsNative, () => {
  it.each(['shm', 'tcp', 'auto'] as const)(
    'moves blocks into the KV memory of another one (%s)',
    async (transport) => {
      const [p, d] = [new Node({ transport, listenIp: null }), new Node({ transport })];
      const link = await p.mover.connect(d.mover.endpoints);
      expect(p.mover.isUp(link!)).toBe(true);
      d.openReceive(0, slots(2));
      p.openSend(5, 2);
      p.save(5, [3, 4]);
      p.mover.grant(5, link!, TICKET, 0);
      await until(() => d.told.length === 1 && p.told.length === 1);
      expect([d.told, p.told]).toEqual([[['received', TICKET]], [['sent', 5]]]);
      expect(d.mover.progress(TICKET)).toBe(2 * NUM_LAYERS);
      expect(await d.load(1, 7)).toBe(true);
      expect([d.holds(7, 4), d.holds(6, 3)]).toEqual([true, false]);
      expect(p.mover.bytesSent).toBeGreaterThanOrEqual(2 * SLOT_BYTES);
      expect(d.mover.bytesReceived).toBeGreaterThanOrEqual(2 * SLOT_BYTES);
      p.mover.closeSend(5);
      d.mover.closeReceive(TICKET);
      await until(() => d.told.length === 2 && p.told.length === 2);
      expect([d.told[1], p.told[1]]).toEqual([
        ['receiveClosed', TICKET],
        ['sendClosed', 5],
      ]);
      expect(await d.load(0, 7)).toBe(false);
    },
  );

  it('prefers shared memory, and takes TCP where no such process is on its host', async () => {
    const [p, d] = [new Node(), new Node()];
    const { tcp } = d.mover.endpoints;
    expect(await p.mover.connect({ shm: 'svc-kv-nobody', tcp })).not.toBeNull();
    const shm = await p.mover.connect(d.mover.endpoints);
    p.openSend(1, 1);
    p.save(1, [0]);
    d.openReceive(0, slots(1));
    p.mover.grant(1, shm!, TICKET, 0);
    await until(() => d.told.length === 1);
  });

  it('listens only for the transports that it may use, and for none where it receives nothing', () => {
    const endpointsOf = (options: Options) => new Node(options).mover.endpoints;
    expect(endpointsOf({ transport: 'shm' })).toEqual({ shm: expect.any(String), tcp: null });
    expect(endpointsOf({ transport: 'tcp' })).toEqual({ shm: null, tcp: expect.any(String) });
    expect(endpointsOf({ listenIp: null })).toEqual({ shm: null, tcp: null });
  });

  it.each([
    ['shm', (d: Node) => ({ shm: null, tcp: d.mover.endpoints.tcp })],
    ['tcp', (d: Node) => ({ shm: d.mover.endpoints.shm, tcp: null })],
  ] as const)('connects over nothing but %s where it is told to', async (transport, endpointsOf) => {
    const [p, d] = [new Node({ transport }), new Node()];
    expect(await p.mover.connect(endpointsOf(d))).toBeNull();
    expect(await p.mover.connect(d.mover.endpoints)).not.toBeNull();
  });

  it('has no link to a process that is not there, and tells of none that is down', async () => {
    const [p, d] = [new Node(), new Node()];
    const { endpoints } = d.mover;
    d.mover.close();
    expect(await p.mover.connect(endpoints)).toBeNull();
    expect(await p.mover.connect({ shm: null, tcp: null })).toBeNull();
    expect(p.told).toEqual([]);
  });

  it('has no link to a process whose blocks are of a size that those here cannot be cut into, and says why', async () => {
    const told: string[] = [];
    const [p, d] = [new Node({ transport: 'tcp', inform: (message) => told.push(message) }), new Node()];
    const cut = { shards: 1, tokens: LAYER_BLOCK_BYTES - 1 };
    expect(await p.mover.connect(d.mover.endpoints, cut)).toBeNull();
    expect(told).toEqual([expect.stringMatching(/^no KV blocks can go to .*tcp: /)]);
  });

  it('gives up a connection to a host that does not answer', async () => {
    const p = new Node({ connectTimeoutMs: 50 });
    // An address of nobody: it is unreachable, or swallows what is sent to it.
    expect(await p.mover.connect({ shm: null, tcp: '192.0.2.1:9' })).toBeNull();
  });

  it('tells when a link goes down, which is not up then', async () => {
    const [p, d] = [new Node(), new Node()];
    const link = await p.mover.connect(d.mover.endpoints);
    d.mover.close();
    await until(() => p.told.length === 1);
    expect(p.told).toEqual([['linkDown', link]]);
    expect(p.mover.isUp(link!)).toBe(false);
  });

  it('names what is wrong with an address that it cannot listen on', () => {
    expect(() => new Node({ listenIp: '192.0.2.1' })).toThrow(ConfigError);
    expect(() => new Node({ listenIp: '192.0.2.1' })).toThrow(/KV transfer cannot start: .*192\.0\.2\.1/);
  });
});

describe('a mover that is closed', needsNative, () => {
  it('ends everything that is open', async () => {
    const [p, d] = [new Node(), new Node()];
    await p.mover.connect(d.mover.endpoints);
    p.openSend(1, 1);
    p.openReceive(0, slots(1));
    const waiting = [p.mover.connect(d.mover.endpoints), p.load(0, 0)];
    p.mover.closeSend(1);
    p.mover.close();
    p.mover.close();
    expect(await Promise.all(waiting)).toEqual([null, false]);
    expect(p.told).toEqual([
      ['sendClosed', 1],
      ['receiveClosed', TICKET],
    ]);
  });

  it('does nothing more, and says so at once', async () => {
    const node = new Node();
    const { mover } = node;
    const { endpoints } = new Node().mover;
    mover.close();
    node.openSend(1, 1);
    mover.grant(1, 1, TICKET, 0);
    node.openReceive(0, slots(1));
    mover.disconnect(1);
    expect([mover.progress(TICKET), mover.bytesSent, mover.bytesReceived]).toEqual([0, 0, 0]);
    mover.closeSend(1);
    mover.closeReceive(TICKET);
    expect(await mover.connect(endpoints)).toBeNull();
    expect(await node.load(0, 0)).toBe(false);
    expect(node.told).toEqual([]);
  });
});
