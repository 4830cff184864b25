// What the connector decides for each request, and how it starts and ends. Whole transfers are in ../transfer.test.ts.

import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { makeRequestId } from '../../../src/cluster/request-id.ts';
import { ConfigError } from '../../../src/errors.ts';
import { promptHash } from '../../../src/kv-transfer/p2p/messages.ts';
import { closedAfterwards } from '../../helpers/closed-afterwards.ts';
import { HostilePeer } from '../../helpers/hostile-peer.ts';
import { COMPATIBILITY } from '../../helpers/kv-instance.ts';
import {
  closeInstancesAfterEach,
  prefill,
  promptOf,
  startInstance,
  startPair,
  untilIdle,
} from '../../helpers/kv-requests.ts';
import { needsNative } from '../../helpers/needs.ts';
import { until } from '../../helpers/until.ts';

const OTHER = '127.0.0.1:1';
const PROMPT = promptOf(4 * COMPATIBILITY.blockSize + 1);

closeInstancesAfterEach();
const opened = closedAfterwards();

/** A sender, a receiver and a loader. */
const THREADS_OF_AN_INSTANCE = 3;

/** Native threads that move blocks, of all connectors of this process. A thread names itself soon after it was made. */
function numTransferThreads(): number {
  const isOurs = (thread: string) => {
    try {
      return readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim() === 'svc-transfer';
    } catch {
      return false;
    }
  };
  return readdirSync('/proc/self/task').filter(isOurs).length;
}

describe('the connector', needsNative, () => {
  it.each([
    ['kv_producer', 'send', 'send', null],
    ['kv_consumer', 'load', 'load', null],
    ['kv_both', 'send', 'load', null],
  ] as const)('as %s sends or loads by its place in the request id', async (role, asP, asD, asBoth) => {
    const { connector, address } = await startInstance({ role });
    const kindOf = (prefillAt: string, decodeAt: string) => {
      const about = { promptIndex: 0, promptTokenIds: PROMPT, extraKeys: [], numSamples: 1, maxTokens: 1 };
      const opened = connector.open({
        requestId: makeRequestId(prefillAt, decodeAt),
        ...about,
        mayLoad: true,
      });
      opened?.end(false);
      return opened?.sequences[0]?.kind ?? null;
    };
    expect(kindOf(address, OTHER)).toBe(role === 'kv_consumer' ? null : asP);
    expect(kindOf(OTHER, address)).toBe(role === 'kv_producer' ? null : asD);
    expect(kindOf(address, address)).toBe(asBoth);
  });

  it('that only sends takes no memory for what comes, and listens for none of it', async () => {
    const tooMuch = 2 ** 50;
    const p = await startInstance({ role: 'kv_producer', bufferBytes: tooMuch, poolBytes: tooMuch });
    const s = opened(await HostilePeer.start());
    const { answer } = await s.sayHello(p);
    expect(answer).toMatchObject({ type: 'welcome', endpoints: { shm: null, tcp: null } });
  });

  it('sends all but the last token of a prompt, and full blocks only where more is written after it', async () => {
    const { p } = await startPair({ sendType: 'GET' });
    const sentOf = (length: number, maxTokens: number | null) => {
      const opened = p.open(makeRequestId(p.address, OTHER), promptOf(length), { maxTokens });
      const [send] = opened?.sequences ?? [];
      opened?.end(false);
      return send?.kind === 'send' ? send.numTokens : null;
    };
    expect([sentOf(6, 1), sentOf(6, 2), sentOf(6, null)]).toEqual([5, 4, 4]);
    expect([sentOf(5, 1), sentOf(5, 2)]).toEqual([4, 4]);
    expect([sentOf(4, 1), sentOf(4, 2)]).toEqual([3, null]);
    expect([sentOf(1, 1), sentOf(1, 2)]).toEqual([null, null]);
  });

  it('numbers every sequence by itself', async () => {
    const { p, d } = await startPair({ sendType: 'GET' });
    const sends = [1, 2].map(() => p.open(makeRequestId(p.address, OTHER), PROMPT, { maxTokens: 1 }));
    const loads = d.open(makeRequestId(OTHER, d.address), PROMPT, { numSamples: 3 });
    expect(sends.map((send) => send?.sequences[0]?.transferId)).toEqual([1, 2]);
    expect(loads?.sequences.map((load) => load?.transferId)).toEqual([1, 2, 3]);
    loads?.end(false);
  });

  it('takes 4096 transfers at once; further requests are ordinary ones', async () => {
    const { p, d } = await startPair({ sendType: 'GET' }, { bufferBytes: 1e9 });
    const open = () => p.open(makeRequestId(p.address, d.address), PROMPT, { maxTokens: 1 });
    const opened = Array.from({ length: 4096 }, open);
    expect(opened.at(-1)).not.toBeNull();
    expect(open()).toBeNull();
    opened[0]?.end(false);
    await expect.poll(() => p.stats.send.holding).toBe(4095);
    expect(open()).not.toBeNull();
  });

  it('takes as many of others', async () => {
    const d = await startInstance({ role: 'kv_consumer' });
    const open = () => d.open(makeRequestId(OTHER, d.address), PROMPT);
    const opened = Array.from({ length: 4096 }, open);
    expect(opened.at(-1)).not.toBeNull();
    expect(open()).toBeNull();
    opened[0]?.end(false);
    await until(() => open() !== null);
  });

  it('grants no room beyond them', async () => {
    const d = await startInstance({ role: 'kv_consumer' });
    const s = opened(await HostilePeer.start());
    const loads = Array.from({ length: 4096 }, () => d.open(makeRequestId(OTHER, d.address), PROMPT));
    // None of them needs memory any more, but all are open.
    const given = () => d.stats.receive.recomputed;
    await until(() => given().peer_gone + given().no_room === loads.length);
    const { route } = await s.sayHello(d);
    const key = `${makeRequestId(s.address, d.address)}#0`;
    const size = { num_tokens: PROMPT.length - 1, num_blocks: 4 };
    const reserve = () => s.request(route, { type: 'reserve', key, hash: promptHash(PROMPT, []), ...size });
    expect(await reserve()).toMatchObject({ type: 'full' });
    loads[0]?.end(false);
    await expect.poll(reserve).toMatchObject({ type: 'granted' });
  });

  it('ends what waits for its prompt where the D that has room for it dies', async () => {
    const p = await startInstance({ role: 'kv_producer', sendType: 'PUT' });
    const s = opened(await HostilePeer.start());
    s.reply = (message) =>
      message.type === 'reserve' ? { type: 'granted', seq: message.seq, ticket: '0'.repeat(16) } : null;
    await s.sayHello(p);
    p.open(makeRequestId(p.address, s.address), PROMPT, { maxTokens: 1 });
    await until(() => s.heard.some(({ type }) => type === 'reserve'));
    await s.close();
    await untilIdle(p);
    expect(p.stats.send.failed).toBe(1);
  });

  it('cancels both halves of a request, and ignores what is no id', async () => {
    const both = await startInstance({ role: 'kv_both', sendType: 'GET' });
    const [out, back] = [makeRequestId(both.address, OTHER), makeRequestId(OTHER, both.address)];
    expect(both.open(out, PROMPT, { maxTokens: 1 })).not.toBeNull();
    expect(both.open(back, PROMPT)).not.toBeNull();
    for (const id of ['no id at all', out, back]) both.connector.cancel(id);
    await expect.poll(() => both.stats.send).toMatchObject({ cancelled: 1, holding: 0 });
    // The key of the cancelled load is free again.
    expect(both.open(back, PROMPT)).not.toBeNull();
  });

  it('names the fix where its port is taken, and leaves nothing open', async () => {
    const first = await startInstance({});
    const { port } = first.config;
    await until(() => numTransferThreads() === THREADS_OF_AN_INSTANCE);
    await expect(startInstance({ port })).rejects.toThrow(ConfigError);
    await expect(startInstance({ port })).rejects.toThrow(/kv_port \d+ of 127\.0\.0\.1 is taken/);
    await until(() => numTransferThreads() === THREADS_OF_AN_INSTANCE);
    await first.close();
    await startInstance({ port });
  });

  it('that is closed lets go of everything, and takes no more requests', async () => {
    const { p, d } = await startPair({ sendType: 'GET' });
    const send = await prefill(p, makeRequestId(p.address, d.address), PROMPT);
    const delivered = p.connector.producer.delivered();
    await p.close();
    await p.close();
    await delivered;
    expect(p.commandsOf(send)).toEqual([{ kind: 'release', transferId: send?.transferId }]);
    expect(p.open(makeRequestId(p.address, d.address), PROMPT)).toBeNull();
  });
});
