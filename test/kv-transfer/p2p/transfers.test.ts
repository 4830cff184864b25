import { describe, expect, it } from 'vitest';
import { makeRequestId, parseRequestId } from '../../../src/cluster/request-id.ts';
import type { Peer } from '../../../src/kv-transfer/p2p/peers.ts';
import { type Entry, type PeerEvent, Transfers } from '../../../src/kv-transfer/p2p/transfers.ts';
import { freePort } from '../../helpers/svc-process.ts';
import { closeLoopbacksAfterEach, Loopback } from './loopback.ts';

type Event = { readonly kind: 'number'; readonly value: number };

closeLoopbacksAfterEach();

async function start(handle: (entry: Entry, event: Event | PeerEvent) => void = () => {}) {
  const node = await Loopback.start();
  return { node, transfers: new Transfers<Entry, Event>(node.peers, handle) };
}

function entryOf(key: string, address = '127.0.0.1:1'): Entry {
  return { transfer: { key, address }, peer: null };
}

const number = (value: number): Event => ({ kind: 'number', value });
const contentOf = (event: Event | PeerEvent) => (event.kind === 'number' ? event.value : event.kind);

describe('the events of transfers', () => {
  it('are handled one after the other in their order, also those that another one causes', async () => {
    const seen: string[] = [];
    const { transfers } = await start((entry, event) => {
      seen.push(`begin ${contentOf(event)}`);
      if (contentOf(event) === 0) for (const value of [1, 2]) transfers.push(entry, number(value));
      seen.push(`end ${contentOf(event)}`);
    });
    transfers.push(entryOf('k'), number(0));
    expect(seen).toEqual(['begin 0', 'end 0', 'begin 1', 'end 1', 'begin 2', 'end 2']);
  });

  it('go on after one whose handling throws', async () => {
    const seen: unknown[] = [];
    const { transfers } = await start((_, event) => {
      if (contentOf(event) === 0) throw new Error('broken');
      seen.push(contentOf(event));
    });
    expect(() => transfers.push(entryOf('k'), number(0))).toThrow('broken');
    transfers.push(entryOf('k'), number(1));
    expect(seen).toEqual([1]);
  });

  it('of a request reach all its prompts, and no request whose id begins alike', async () => {
    const seen: string[] = [];
    const { transfers } = await start(({ transfer }) => void seen.push(transfer.key));
    const id = parseRequestId(makeRequestId('127.0.0.1:1', '127.0.0.1:2'))!;
    for (const key of [`${id.id}#0`, `${id.id}#1`, `${id.id}0#0`]) transfers.add(entryOf(key));
    transfers.pushToRequest(id, number(0));
    expect(seen).toEqual([`${id.id}#0`, `${id.id}#1`]);
  });

  it('of a peer reach the transfers that it was asked about', async () => {
    const seen: unknown[] = [];
    const { node, transfers } = await start(({ transfer }, event) => {
      seen.push([transfer.key, event.kind]);
    });
    const [mine, others] = [entryOf('mine'), entryOf('others')];
    for (const entry of [mine, others, entryOf('not asked yet')]) transfers.add(entry);
    transfers.pin(mine, node.peers.get('127.0.0.1:1'));
    transfers.pin(others, node.peers.get('127.0.0.1:2'));
    transfers.pushToPeer('127.0.0.1:1', { kind: 'peerGone' });
    expect(seen).toEqual([['mine', 'peerGone']]);
  });
});

describe('a key', () => {
  it('leads a peer only to a transfer with itself', async () => {
    const { node, transfers } = await start();
    const entry = entryOf('k', '127.0.0.1:1');
    transfers.add(entry);
    expect(transfers.getFrom(node.peers.get('127.0.0.1:1'), 'k')).toBe(entry);
    expect(transfers.getFrom(node.peers.get('127.0.0.1:2'), 'k')).toBeNull();
    expect(transfers.getFrom(node.peers.get('127.0.0.1:1'), 'other')).toBeNull();
  });

  it('that has gone to another transfer is not taken from that one', async () => {
    const { transfers } = await start();
    const [first, second] = [entryOf('k'), entryOf('k')];
    transfers.add(first);
    transfers.remove(first);
    transfers.add(second);
    transfers.remove(first);
    expect(transfers.get('k')).toBe(second);
    expect(transfers.size).toBe(1);
  });

  it('is remembered when it is over, until it is used again', async () => {
    const { transfers } = await start();
    transfers.markOver('k');
    expect([transfers.isOver('k'), transfers.isOver('other')]).toEqual([true, false]);
    transfers.add(entryOf('k'));
    expect(transfers.isOver('k')).toBe(false);
  });

  it('is over where its whole request is', async () => {
    const { transfers } = await start();
    const id = makeRequestId('127.0.0.1:1', '127.0.0.1:2');
    transfers.markOver(id);
    expect(transfers.isOver(`${id}#3`)).toBe(true);
  });

  it('is forgotten after 4096 later ones; one that is over again counts as later', async () => {
    const { transfers } = await start();
    for (let index = 0; index < 4096; index += 1) transfers.markOver(`k${index}`);
    transfers.markOver('k0');
    transfers.markOver('new');
    expect(['k0', 'k1', 'k2', 'new'].map((key) => transfers.isOver(key))).toEqual([true, false, true, true]);
  });
});

describe('the connection of a transfer', () => {
  const pinsOf = (peer: Peer) => peer.pins.size;

  it('is pinned once, and let go once', async () => {
    const { node, transfers } = await start();
    const [entry, peer] = [entryOf('k'), node.peers.get('127.0.0.1:1')];
    transfers.pin(entry, peer);
    transfers.pin(entry, peer);
    expect(pinsOf(peer)).toBe(1);
    transfers.unpin(entry);
    transfers.unpin(entry);
    expect(pinsOf(peer)).toBe(0);
  });

  it('is let go when another one takes its place', async () => {
    const { node, transfers } = await start();
    const [entry, peer, other] = [entryOf('k'), node.peers.get('127.0.0.1:1'), node.peers.get('127.0.0.1:2')];
    transfers.pin(entry, peer);
    transfers.pin(entry, other);
    expect([pinsOf(peer), pinsOf(other), entry.peer]).toEqual([0, 1, other]);
  });

  it('carries a question to the other instance, and is pinned by it', async () => {
    const { node, transfers } = await start();
    const other = await Loopback.start();
    const entry = entryOf('k', other.address);
    const question = {
      type: 'reserve',
      key: 'k',
      hash: '0'.repeat(32),
      num_tokens: 1,
      num_blocks: 1,
    } as const;
    expect(await transfers.ask(entry, () => question)).toMatchObject({ type: 'full' });
    expect(other.heard).toMatchObject([question]);
    expect(pinsOf(node.peers.get(other.address))).toBe(1);
  });

  it('tells why there is no answer', async () => {
    const { transfers } = await start();
    const alien = await Loopback.start({ own: { model: 'other' } });
    const nobody = entryOf('k', `127.0.0.1:${await freePort()}`);
    expect(await transfers.ask(nobody, () => ({ type: 'ping' }))).toBe('gone');
    expect(await transfers.ask(entryOf('k', alien.address), () => ({ type: 'ping' }))).toBe('refused');
  });
});
