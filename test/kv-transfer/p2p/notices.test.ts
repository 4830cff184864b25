// Notices over real control connections; the other end is a loopback instance.

import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { freePort } from '../../helpers/svc-process.ts';
import { until } from '../../helpers/until.ts';
import { closeLoopbacksAfterEach, Loopback } from './loopback.ts';

const CANCEL = { type: 'cancel', key: 'k' } as const;
const RETRY_MS = 20;

closeLoopbacksAfterEach();

function start(deadlines: Partial<Loopback['deadlines']> = {}): Promise<Loopback> {
  return Loopback.start({ deadlines: { noticeRetry: RETRY_MS, ...deadlines } });
}

describe('a notice', () => {
  it('is told once to an instance that says that it has heard it', async () => {
    const [a, b] = [await start(), await start()];
    a.notices.tell(b.address, CANCEL);
    await until(() => b.heard.length === 1);
    await sleep(10 * RETRY_MS);
    expect(b.heard).toMatchObject([CANCEL]);
    expect(a.peers.get(b.address).pins.size).toBe(0);
  });

  it('is told again until the instance can be reached', async () => {
    const a = await start();
    const port = await freePort();
    a.notices.tell(`127.0.0.1:${port}`, CANCEL);
    await sleep(5 * RETRY_MS);
    const b = await Loopback.start({ port });
    await until(() => b.heard.length === 1);
  });

  it('is told again to an instance that this one has given up meanwhile', async () => {
    const a = await start();
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    a.notices.tell(address, CANCEL);
    await until(() => a.peers.size === 0 || a.peers.get(address).route === null);
    const peer = a.peers.get(address);
    peer.pins.add('a transfer');
    peer.missedPings = a.deadlines.missedPings;
    a.peers.sweep(peer.lastPing + a.deadlines.ping);
    expect(a.gone).toEqual([address]);
    const b = await Loopback.start({ port });
    await until(() => b.heard.length === 1);
  });

  it('is told no more after its deadline', async () => {
    const a = await start({ notice: 0 });
    const port = await freePort();
    a.notices.tell(`127.0.0.1:${port}`, CANCEL);
    await sleep(10 * RETRY_MS);
    const b = await Loopback.start({ port });
    await sleep(10 * RETRY_MS);
    expect(b.heard).toEqual([]);
  });

  it('is told no more where the two are of another kind', async () => {
    const a = await start();
    const alien = await Loopback.start({ own: { model: 'other' } });
    a.notices.tell(alien.address, CANCEL);
    await until(() => a.warnings.length === 1);
    await sleep(10 * RETRY_MS);
    expect(alien.heard).toEqual([]);
    expect(a.peers.get(alien.address).pins.size).toBe(0);
  });

  it('is not one of more than 4096 that nobody has heard', async () => {
    const a = await start();
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    for (let index = 0; index < 4100; index += 1) a.notices.tell(address, { ...CANCEL, key: `${index}` });
    const b = await Loopback.start({ port });
    const numHeard = () => new Set(b.heard.map(({ key }) => key)).size;
    await until(() => numHeard() >= 4096);
    await sleep(10 * RETRY_MS);
    expect(numHeard()).toBe(4096);
    await until(() => a.peers.get(address).pins.size === 0);
    a.notices.tell(address, CANCEL);
    await until(() => numHeard() === 4097);
  });
});
