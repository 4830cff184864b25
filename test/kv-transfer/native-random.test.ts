// Whatever order things happen in - steps, grants, cancels, cut links - what is loaded is what was computed, and nothing is
// written into blocks whose load has ended.

import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { needsNative } from '../helpers/needs.ts';
import { KINDS, type Kind, range, TransferNode } from '../helpers/transfer-node.ts';

const NUM_TRANSFERS = 4;
const BLOCKS = 6;
const SHAPE = { layers: 3, blocks: NUM_TRANSFERS * BLOCKS, layerBlockBytes: 328 };
const RECEIVE_SLOTS = 600;

const Transfer = fc.nat(NUM_TRANSFERS - 1);
const Target = { to: fc.nat(1), kind: fc.constantFrom(...KINDS) };
const Feed = fc.record({
  do: fc.constant('save' as const),
  transfers: fc.uniqueArray(Transfer, { minLength: 1 }),
  count: fc.integer({ min: 1, max: 4 }),
});
const Op = fc.oneof(
  Feed,
  Feed,
  fc.record({ do: fc.constant('grant' as const), transfer: Transfer, first: fc.nat(BLOCKS - 1), ...Target }),
  fc.record({ do: fc.constant('cancel' as const), transfer: Transfer }),
  fc.record({ do: fc.constant('closeReceive' as const), transfer: Transfer }),
  fc.record({ do: fc.constant('cut' as const), ...Target }),
  fc.record({ do: fc.constant('wait' as const) }),
);
type Op = typeof Op extends fc.Arbitrary<infer T> ? T : never;

interface Sending {
  readonly send: number;
  readonly blocks: readonly number[];
  numFed: number;
  isCancelled: boolean;
  /** Where it was granted last, and whether all of it came into its blocks there. */
  receive: { readonly d: TransferNode; readonly ticket: bigint; readonly loaded: Promise<boolean> } | null;
}

/** One producer and two consumers, with everything that was begun. */
class Play {
  readonly p = new TransferNode(SHAPE);
  readonly ds = [0, 1].map(
    () => new TransferNode(SHAPE, RECEIVE_SLOTS * SHAPE.layers * SHAPE.layerBlockBytes),
  );
  readonly #sendings: Sending[];
  readonly #links = new Map<string, number>();
  /** Blocks whose load has ended, and what was written into them since. */
  #givenBack: { readonly d: TransferNode; readonly blocks: readonly number[]; readonly contents: Buffer }[] =
    [];
  #numGrants = 0;

  constructor(seed: number) {
    this.p.fill(range(SHAPE.blocks), seed);
    this.#sendings = range(NUM_TRANSFERS).map((send) => {
      this.p.engine.openSend(send, BLOCKS);
      const blocks = range(BLOCKS, send * BLOCKS);
      return { send, blocks, numFed: 0, isCancelled: false, receive: null };
    });
  }

  async do(op: Op): Promise<void> {
    switch (op.do) {
      case 'save':
        return this.#save(op.transfers, op.count);
      case 'grant':
        return this.#grant(this.#sendings[op.transfer]!, op.to, op.kind, op.first);
      case 'cancel':
        return this.#cancel(this.#sendings[op.transfer]!);
      case 'closeReceive':
        return this.#giveUp(this.#sendings[op.transfer]!);
      case 'cut':
        return this.#cut(op.to, op.kind);
      case 'wait':
        await sleep(1);
    }
  }

  /** What was not cancelled is completed, from the beginning and over any link. */
  async complete(): Promise<void> {
    for (const sending of this.#sendings) {
      if (sending.isCancelled) {
        await this.p.event('sendClosed', ({ send }) => send === sending.send);
        continue;
      }
      await this.#grant(sending, sending.send % 2, sending.send < 2 ? 'shm' : 'tcp', 0);
      this.#save([sending.send], BLOCKS);
      const { d, loaded } = sending.receive!;
      expect(await loaded).toBe(true);
      expect(d.read(sending.blocks).equals(this.p.read(sending.blocks))).toBe(true);
    }
    expect(this.ds.some((d) => d.has('corrupt'))).toBe(false);
    for (const { d, blocks, contents } of this.#givenBack) expect(d.read(blocks).equals(contents)).toBe(true);
  }

  close(): void {
    for (const node of [this.p, ...this.ds]) node.close();
  }

  #save(sends: readonly number[], count: number): void {
    const entries = sends.flatMap((send) => {
      const sending = this.#sendings[send]!;
      const blocks = sending.blocks.slice(sending.numFed, sending.numFed + count);
      const entry = [send, sending.numFed, blocks.length, ...blocks];
      sending.numFed += blocks.length;
      return entry;
    });
    this.p.memory.onKvStep(Int32Array.from(entries));
    for (const layer of range(SHAPE.layers)) this.p.memory.onKvLayerSaved(layer);
  }

  async #grant(sending: Sending, to: number, kind: Kind, first: number): Promise<void> {
    if (sending.isCancelled) return;
    await this.#giveUp(sending);
    const d = this.ds[to]!;
    this.#givenBack = this.#givenBack.filter((one) => one.d !== d || one.blocks !== sending.blocks);
    const ticket = BigInt(this.#numGrants);
    const count = BLOCKS - first;
    d.receive(ticket, count, first, this.#numGrants * BLOCKS);
    this.#numGrants += 1;
    sending.receive = { d, ticket, loaded: d.load(ticket, sending.blocks.slice(first), first) };
    const name = `${kind} ${to}`;
    const link = this.#links.get(name) ?? this.p.engine.connect(kind, d.address(kind), 2);
    this.#links.set(name, link);
    this.p.engine.grant(sending.send, link, ticket, first);
  }

  #cancel(sending: Sending): void {
    if (!sending.isCancelled) this.p.engine.closeSend(sending.send);
    sending.isCancelled = true;
  }

  /** The blocks belong to somebody else as soon as the load has ended. */
  async #giveUp(sending: Sending): Promise<void> {
    if (sending.receive === null) return;
    const { receive, blocks, send } = sending;
    const { d, ticket, loaded } = receive;
    sending.receive = null;
    d.engine.closeReceive(ticket);
    await loaded;
    d.fill(blocks, 1001 + send);
    this.#givenBack.push({ d, blocks, contents: d.read(blocks) });
  }

  #cut(to: number, kind: Kind): void {
    const link = this.#links.get(`${kind} ${to}`);
    if (link !== undefined) this.p.engine.disconnect(link);
    this.#links.delete(`${kind} ${to}`);
  }
}

it('brings every transfer that is not cancelled to its end, bit for bit', needsNative, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(Op, { maxLength: 60 }), fc.nat(1000), async (ops, seed) => {
      const play = new Play(seed);
      try {
        for (const op of ops) await play.do(op);
        await play.complete();
      } finally {
        play.close();
      }
    }),
    { numRuns: 60 },
  );
});
