// What damages, delays and cuts connections between two transfer engines is noticed, and never becomes wrong data.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteRelay } from '../helpers/byte-relay.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { needsNative } from '../helpers/needs.ts';
import { range, type TransferNode, transferNodes } from '../helpers/transfer-node.ts';
import { until } from '../helpers/until.ts';

const SHAPE = { layers: 2, blocks: 16, layerBlockBytes: 512 };
const HELLO_BYTES = 56;
const HEADER_BYTES = 32;
const ENTRY_BYTES = 8;

const node = transferNodes();

async function relayTo(target: TransferNode): Promise<ByteRelay> {
  return opened(await ByteRelay.start(target.address('tcp')));
}

const opened = closedAfterwards();

function flipAt(relay: ByteRelay, place: number, mask = 0xff): void {
  relay.change = (bytes, offset) => {
    const at = place - offset;
    if (at >= 0 && at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ mask;
    return bytes;
  };
}

/** Begins to send the first `count` blocks of `p`, all of them saved. */
function begin(p: TransferNode, d: TransferNode, link: number, count: number, ticket = 1n): void {
  d.receive(ticket, count);
  p.engine.openSend(1, count);
  p.engine.grant(1, link, ticket, 0);
  p.save(1, 0, range(count));
}

describe('a byte that changes on its way', needsNative, () => {
  it('in a piece is noticed, and the piece can be sent again', async () => {
    const [p, d] = [node(SHAPE), node(SHAPE)];
    const relay = await relayTo(d);
    p.fill(range(4), 1);
    flipAt(relay, HELLO_BYTES + HEADER_BYTES + 4 * ENTRY_BYTES + 700, 1);
    const link = await p.link('tcp', relay.address, 1);
    begin(p, d, link, 4);
    const loading = d.load(1n, range(4, 8));
    expect((await d.event('corrupt')).ticket).toBe(1n);
    await until(() => d.engine.progress(1n) === 7);
    expect([d.has('received'), d.has('loaded')]).toEqual([false, false]);
    p.engine.grant(1, link, 1n, 0);
    await d.event('received');
    expect(await loading).toBe(true);
    expect(d.read(range(4, 8)).equals(p.read(range(4)))).toBe(true);
  });

  it.each(range(HELLO_BYTES + HEADER_BYTES + 2 * ENTRY_BYTES))(
    'at place %i of greeting and header ends the link, and nothing is believed',
    async (place) => {
      const [p, d] = [node(SHAPE), node(SHAPE)];
      const relay = await relayTo(d);
      flipAt(relay, place, 1 << (place % 8));
      const link = p.engine.connect('tcp', relay.address, 1);
      await p.event('linkUp');
      begin(p, d, link, 2);
      expect((await p.event('linkDown')).link).toBe(link);
      // At most the second layer's frame, whole, came through.
      expect([d.has('received'), d.engine.progress(1n)]).toEqual([false, 0]);
    },
  );

  it('never becomes wrong data, wherever it is', async () => {
    const streamBytes = HELLO_BYTES + 2 * (HEADER_BYTES + 3 * (ENTRY_BYTES + SHAPE.layerBlockBytes));
    await fc.assert(
      fc.asyncProperty(fc.nat(streamBytes - 1), fc.integer({ min: 1, max: 255 }), async (place, mask) => {
        const [p, d] = [node(SHAPE), node(SHAPE)];
        const relay = await relayTo(d);
        flipAt(relay, place, mask);
        p.fill(range(3), place);
        begin(p, d, p.engine.connect('tcp', relay.address, 1), 3);
        const loading = d.load(1n, [5, 6, 7]);
        await until(() => p.has('linkDown') || d.has('corrupt') || d.has('received'));
        if (!d.has('received')) d.engine.closeReceive(1n);
        const isIntact = await loading;
        expect(isIntact).toBe(d.has('received'));
        if (isIntact) expect(d.read([5, 6, 7]).equals(p.read([0, 1, 2]))).toBe(true);
        for (const end of [p, d]) end.close();
        relay.close();
      }),
      { numRuns: 60 },
    );
  });
});

describe('a connection', needsNative, () => {
  it('that is reset in the middle calls its link down, and another one completes the transfer', async () => {
    const [p, d] = [node(SHAPE), node(SHAPE)];
    const relay = await relayTo(d);
    p.fill(range(8), 2);
    const link = await p.link('tcp', relay.address);
    d.receive(1n, 8);
    p.engine.openSend(1, 8);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, range(4));
    await until(() => d.engine.progress(1n) === 8);
    relay.reset();
    expect((await p.event('linkDown')).link).toBe(link);
    p.save(1, 4, range(4, 4));
    p.engine.grant(1, await p.link('tcp', d.address('tcp')), 1n, 0);
    await d.event('received');
    expect(await d.load(1n, range(8, 8))).toBe(true);
    expect(d.read(range(8, 8)).equals(p.read(range(8)))).toBe(true);
  });

  it('that takes no more bytes does not hold up others', async () => {
    const shape = { layers: 4, blocks: 64, layerBlockBytes: 65_536 };
    const [p, slow, quick] = [node(shape), node(shape), node(shape)];
    const relay = await relayTo(slow);
    const [toSlow, toQuick] = [await p.link('tcp', relay.address), await p.link('tcp', quick.address('tcp'))];
    p.fill(range(64), 3);
    relay.pause();
    begin(p, slow, toSlow, 64);
    quick.receive(2n, 64);
    p.engine.openSend(2, 64);
    p.save(2, 0, range(64));
    p.engine.grant(2, toQuick, 2n, 0);
    await quick.event('received');
    expect(slow.has('received')).toBe(false);
    relay.resume();
    await slow.event('received');
  });

  it('that stops in the middle of a piece does not hold up the receiver', async () => {
    const [stuck, p, d] = [node(SHAPE), node(SHAPE), node(SHAPE)];
    const relay = await relayTo(d);
    let passed = 0;
    relay.change = (bytes) => {
      const part = bytes.subarray(0, Math.max(0, 500 - passed));
      passed += bytes.length;
      return part;
    };
    begin(stuck, d, await stuck.link('tcp', relay.address, 1), 3, 1n);
    p.fill(range(3), 4);
    begin(p, d, await p.link('tcp', d.address('tcp')), 3, 2n);
    await d.event('received', ({ ticket }) => ticket === 2n);
    // Its area is free at once, though the rest of the piece has not come.
    d.engine.closeReceive(1n);
    await d.event('receiveClosed', ({ ticket }) => ticket === 1n);
  });

  it('that is stuck gives the blocks of a closed send back at once, and ends its frame as it began', async () => {
    const shape = { layers: 1, blocks: 128, layerBlockBytes: 262_144 };
    const [p, d] = [node(shape), node(shape)];
    const relay = await relayTo(d);
    p.fill(range(128), 5);
    const link = await p.link('tcp', relay.address, 1);
    relay.pause();
    begin(p, d, link, 128);
    await until(() => p.engine.bytesSent > 0);
    p.engine.closeSend(1);
    await p.event('sendClosed');
    p.fill(range(128), 6);
    relay.resume();
    p.engine.openSend(2, 2);
    d.receive(2n, 2, 0, 0);
    p.engine.grant(2, link, 2n, 0);
    p.save(2, 0, [0, 1]);
    await d.event('received', ({ ticket }) => ticket === 2n);
    expect([d.has('corrupt'), p.has('linkDown')]).toEqual([false, false]);
  });
});
