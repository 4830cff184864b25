// What happens when something goes wrong between instances: D computes the prompt itself, and nothing stays behind.

import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import type { SendType } from '../../src/config/kv-transfer-config.ts';
import type { RequestTransfer } from '../../src/kv-transfer/connector.ts';
import { DEADLINES } from '../../src/kv-transfer/p2p/deadlines.ts';
import { Wiretap } from '../disagg/tampering-proxy.ts';
import type { KvInstance } from '../helpers/kv-instance.ts';
import {
  closeInstancesAfterEach,
  decode,
  type Loading,
  loaded,
  prefill,
  promptOf,
  startInstance,
  startLoad,
  startPair,
  untilIdle,
} from '../helpers/kv-requests.ts';
import { needsNative } from '../helpers/needs.ts';
import { freePorts } from '../helpers/svc-process.ts';
import { until } from '../helpers/until.ts';

const SEND_TYPES = ['PUT_ASYNC', 'PUT', 'GET'] as const;
const PROMPT = promptOf(41);

closeInstancesAfterEach();

const tap = new Wiretap();
afterAll(() => tap.close());

/** Two instances whose messages pass the wiretap, and the id of a request that is for both. */
async function startTapped(sendType: SendType) {
  const { p, d } = await startPair({ sendType, transport: 'tcp', deadlines: { answer: 200 } });
  const doors = await freePorts(2);
  const [toP = '', toD = ''] = await Promise.all(
    [p, d].map(({ address }, index) => tap.addDoor(doors[index]!, address)),
  );
  return { p, d, id: makeRequestId(toP, toD) };
}

/** A request at P of which the first blocks are computed, and at D where they are sent unasked. */
async function startPrefill(p: KvInstance, d: KvInstance, id: string): Promise<RequestTransfer> {
  const transfer = p.open(id, PROMPT, { maxTokens: 1 });
  if (transfer === null) throw new Error('nothing is sent');
  p.computeStep(transfer.sequences[0] ?? null, PROMPT, p.takeBlocks(PROMPT), 0, 3);
  if (p.config.sendType === 'PUT_ASYNC') await untilBlocksCome(d);
  if (p.config.sendType === 'PUT') await until(() => d.stats.receive.receiveBuffers === 1);
  return transfer;
}

/** A request at D that waits for what `startPrefill` has begun to compute. */
async function startWaiting(d: KvInstance, id: string): Promise<Loading> {
  const loading = startLoad(d, id, PROMPT);
  if (loading === null) throw new Error('nothing is loaded');
  if (d.config.sendType === 'GET') await untilBlocksCome(d);
  return loading;
}

function untilBlocksCome(d: KvInstance): Promise<void> {
  return until(() => d.stats.receive.bytes > 0);
}

describe('a request that ends early', needsNative, () => {
  describe.each(SEND_TYPES)('with %s', (sendType) => {
    it('at P, while it is computed, is freed at both', async () => {
      const { p, d } = await startPair({ sendType });
      const id = makeRequestId(p.address, d.address);
      const transfer = await startPrefill(p, d, id);
      transfer.end(false);
      await untilIdle(p, d);
      expect(p.stats.send.cancelled).toBe(1);
      expect(p.commands).toEqual([{ kind: 'release', transferId: transfer.sequences[0]?.transferId }]);
    });

    it('at D, before it asks, is freed at both', async () => {
      const { p, d } = await startPair({ sendType });
      const id = makeRequestId(p.address, d.address);
      await startPrefill(p, d, id);
      d.open(id, PROMPT)?.end(false);
      await untilIdle(p, d);
      expect(d.commands).toEqual([]);
      expect(p.stats.send.cancelled).toBe(1);
    });

    it('at D, while it waits, is answered once and freed at both', async () => {
      const { p, d } = await startPair({ sendType });
      const id = makeRequestId(p.address, d.address);
      await startPrefill(p, d, id);
      const loading = await startWaiting(d, id);
      loading.transfer.end(false);
      d.connector.consumer.onTransferEvent({ kind: 'loadEnded', transferId: loading.load.transferId });
      await untilIdle(p, d);
      expect(d.commands).toEqual([{ kind: 'loaded', transferId: loading.load.transferId, numTokens: 0 }]);
    });

    it('at D, while its blocks are copied, is answered once when they are', async () => {
      const { p, d } = await startPair({ sendType });
      const id = makeRequestId(p.address, d.address);
      await prefill(p, id, PROMPT);
      if (sendType !== 'GET') await expect.poll(() => p.stats.send.delivered).toBe(1);
      const loading = startLoad(d, id, PROMPT);
      loading?.transfer.end(false);
      await untilIdle(p, d);
      expect(d.commandsOf(loading?.load)).toHaveLength(1);
    });

    it('at D, although the engine asks for it later, is answered', async () => {
      const { p, d } = await startPair({ sendType });
      const id = makeRequestId(p.address, d.address);
      await startPrefill(p, d, id);
      const transfer = d.open(id, PROMPT);
      const [load] = transfer?.sequences ?? [];
      transfer?.end(false);
      const blocks = d.takeBlocks(PROMPT);
      d.connector.consumer.onTransferEvent({
        kind: 'load',
        transferId: load!.transferId,
        firstBlock: 0,
        blocks,
      });
      expect(d.commands).toEqual([{ kind: 'loaded', transferId: load?.transferId, numTokens: 0 }]);
      await untilIdle(p, d);
    });

    it.each(['p', 'd'] as const)('by a cancel at %s is freed at both', async (where) => {
      const { p, d } = await startPair({ sendType });
      const id = makeRequestId(p.address, d.address);
      await startPrefill(p, d, id);
      const loading = await startWaiting(d, id);
      ({ p, d })[where].connector.cancel(id);
      expect(await loaded(d, loading!)).toBe(0);
      await untilIdle(p, d);
      ({ p, d })[where].connector.cancel('no id at all');
    });
  });

  it.each(['PUT_ASYNC', 'PUT'] as const)(
    'leaves nothing at D where P comes too late, with %s',
    async (sendType) => {
      const { p, d } = await startPair({ sendType });
      const ids = Array.from({ length: 3 }, () => makeRequestId(p.address, d.address)) as [
        string,
        string,
        string,
      ];
      const [cancelled, ended, notLoaded] = ids;
      d.connector.cancel(cancelled);
      startLoad(d, ended, PROMPT)?.transfer.end(false);
      d.open(notLoaded, PROMPT, { mayLoad: false });
      for (const id of ids) await prefill(p, id, PROMPT);
      await untilIdle(p, d);
      expect(d.stats.receive.receiveBuffers).toBe(0);
      // Which of the two it is depends on whether D's cancel arrives before its answer to the reservation.
      const { delivered, failed, cancelled: numCancelled } = p.stats.send;
      expect({ delivered, givenUp: failed + numCancelled }).toEqual({ delivered: 0, givenUp: 3 });
    },
  );

  it('at any moment is freed at both, 200 times', async () => {
    const { p, d } = await startPair({ bufferBytes: 1e5 });
    const ids = Array.from({ length: 200 }, () => makeRequestId(p.address, d.address));
    const endLater = async (transfer: RequestTransfer | null): Promise<void> => {
      await sleep(Math.random() * 50);
      transfer?.end(false);
    };
    const ended = ids.flatMap((id) => [
      endLater(p.open(id, promptOf(9), { maxTokens: 1 })),
      endLater(d.open(id, promptOf(9))),
    ]);
    await Promise.all(ended);
    await untilIdle(p, d);
    expect(p.commands).toHaveLength(200);
    expect(d.commands).toEqual([]);
  });
});

describe('that a transfer is over', needsNative, () => {
  /** Nothing arrives from the first message of this type on, until it has been told in vain. */
  function cutAt(type: string): Promise<void> {
    return new Promise((resolve) => {
      tap.onStep = (step) => {
        if (step !== type) return;
        tap.onStep = () => {};
        tap.isControlCut = true;
        setTimeout(() => {
          tap.isControlCut = false;
          resolve();
        }, 300);
      };
    });
  }

  it.each(SEND_TYPES)('comes to P although nothing did when D had its blocks, with %s', async (sendType) => {
    const { p, d, id } = await startTapped(sendType);
    const isWhole = cutAt('received');
    const isPrefilled = prefill(p, id, PROMPT);
    expect(await decode(d, id, PROMPT)).toBe(40);
    await Promise.all([isPrefilled, isWhole]);
    await untilIdle(p, d);
    expect(p.stats.send.delivered).toBe(1);
  });

  it.each(SEND_TYPES)(
    'comes to P although nothing did when its request ended at D, with %s',
    async (sendType) => {
      const { p, d, id } = await startTapped(sendType);
      await startPrefill(p, d, id);
      const loading = await startWaiting(d, id);
      const isWhole = cutAt('cancel');
      loading.transfer.end(false);
      d.connector.consumer.onTransferEvent({ kind: 'loadEnded', transferId: loading.load.transferId });
      await isWhole;
      await untilIdle(p, d);
    },
  );
});

describe('a data link', needsNative, () => {
  afterEach(() => {
    tap.fault = 'none';
  });

  it('that breaks, and cannot be made anew, ends at both what was to go over it', async () => {
    const { p, d, id } = await startTapped('PUT_ASYNC');
    const [send = null] = (await startPrefill(p, d, id)).sequences;
    tap.fault = 'reset';
    p.computeStep(send, PROMPT, p.takeBlocks(PROMPT), 3, 6);
    await untilIdle(p, d);
    expect(p.stats.send.failed).toBe(1);
  });
});

describe('a peer', needsNative, () => {
  it('that leaves while it computes is noticed at once', async () => {
    const { p, d } = await startPair();
    const id = makeRequestId(p.address, d.address);
    await startPrefill(p, d, id);
    const loading = await startWaiting(d, id);
    const start = performance.now();
    await p.close();
    expect(await loaded(d, loading!)).toBe(0);
    expect(performance.now() - start).toBeLessThan(DEADLINES.answer);
    expect(d.stats.receive.recomputed.peer_gone).toBe(1);
    await untilIdle(p, d);
  });

  it('that is D and leaves frees what P holds', async () => {
    const { p, d } = await startPair();
    await startPrefill(p, d, makeRequestId(p.address, d.address));
    await d.close();
    await untilIdle(p);
    expect(p.stats.send.failed).toBe(1);
  });

  it('that was never there costs nothing but its part', async () => {
    const { p, d } = await startPair();
    const { address } = p;
    await p.close();
    const start = performance.now();
    expect(await decode(d, makeRequestId(address, d.address), PROMPT)).toBe(0);
    expect(performance.now() - start).toBeLessThan(DEADLINES.answer);
    expect(d.stats.receive.recomputed.peer_gone).toBe(1);
    await untilIdle(d);
  });

  it('that went without a word leaves what had arrived', async () => {
    const { p, d } = await startPair();
    const id = makeRequestId(p.address, d.address);
    await prefill(p, id, PROMPT);
    await expect.poll(() => p.stats.send.delivered).toBe(1);
    await p.close();
    expect(await decode(d, id, PROMPT)).toBe(40);
    await untilIdle(d);
  });

  it.each(SEND_TYPES)('that is P and was restarted is a new one (%s)', async (sendType) => {
    const { p, d } = await startPair({ sendType });
    const { port } = p.config;
    const old = makeRequestId(p.address, d.address);
    await startPrefill(p, d, old);
    const loading = await startWaiting(d, old);
    await p.close();
    const again = await startInstance({ role: 'kv_producer', port, sendType });
    expect(await loaded(d, loading!)).toBe(0);
    const id = makeRequestId(again.address, d.address);
    await prefill(again, id, PROMPT);
    expect(await decode(d, id, PROMPT)).toBe(40);
    await untilIdle(again, d);
  });

  it.each(SEND_TYPES)('that is D and was restarted is a new one (%s)', async (sendType) => {
    const { p, d } = await startPair({ sendType });
    const { port } = d.config;
    await prefill(p, makeRequestId(p.address, d.address), PROMPT);
    await d.close();
    const again = await startInstance({ role: 'kv_consumer', port, sendType });
    const id = makeRequestId(p.address, again.address);
    await prefill(p, id, PROMPT);
    expect(await decode(again, id, PROMPT)).toBe(40);
    p.connector.cancel(id);
    await untilIdle(again);
  });

  it.each(['model', 'isa', 'dtype'] as const)('of another %s is refused with the reason', async (field) => {
    const { p, d } = await startPair({}, { compatibility: { [field]: 'other' } });
    const id = makeRequestId(p.address, d.address);
    await prefill(p, id, PROMPT);
    await untilIdle(p, d);
    expect(await decode(d, id, PROMPT)).toBe(0);
    expect(d.stats.receive.recomputed.mismatch).toBe(1);
    const values = `: ${field === 'dtype' ? 'bf16' : 'test'} at ${d.address}, other at ${p.address}`;
    expect(p.warnings).toEqual([expect.stringContaining(values)]);
    expect(d.warnings).toEqual([expect.stringContaining(values)]);
  });

  it.each([
    ['the same secret', 'a secret of our own', 40],
    ['another secret', 'a secret of theirs', 0],
    ['no secret', null, 0],
  ])('with %s', async (_, secret, expected) => {
    const { p, d } = await startPair(
      { secret: 'a secret of our own', ...(expected === 0 && { deadlines: { answer: 200 } }) },
      { secret },
    );
    const id = makeRequestId(p.address, d.address);
    await prefill(p, id, PROMPT);
    expect(await decode(d, id, PROMPT)).toBe(expected);
    await untilIdle(p, d);
  });

  it('that has been idle is let go, and found again', async () => {
    const { p, d } = await startPair({ deadlines: { idlePeer: 100, sweep: 20 } });
    for (let round = 0; round < 3; round += 1) {
      const id = makeRequestId(p.address, d.address);
      await prefill(p, id, PROMPT);
      expect(await decode(d, id, PROMPT)).toBe(40);
      await expect.poll(() => [p.stats.peers, d.stats.peers]).toEqual([0, 0]);
    }
  });
});

describe('a deadline', needsNative, () => {
  it('frees what P holds for nobody', async () => {
    const { p, d } = await startPair({ sendType: 'GET', deadlines: { hold: 100, sweep: 20 } });
    await prefill(p, makeRequestId(p.address, d.address), PROMPT);
    await untilIdle(p, d);
    expect(p.stats.send.expired).toBe(1);
  });

  it('frees what D received for nobody', async () => {
    const { p, d } = await startPair({ deadlines: { unclaimed: 1000, sweep: 20 } });
    const id = makeRequestId(p.address, d.address);
    await prefill(p, id, PROMPT);
    await expect.poll(() => p.stats.send.delivered).toBe(1);
    await untilIdle(p, d);
    expect(await decode(d, id, PROMPT)).toBe(0);
    expect(d.stats.receive.recomputed.unknown).toBe(1);
  });

  it('frees what P has promised to D and never computes', async () => {
    const { p, d } = await startPair({ deadlines: { unclaimed: 1500, sweep: 20 } });
    const transfer = await startPrefill(p, d, makeRequestId(p.address, d.address));
    await untilIdle(d);
    transfer.end(false);
    await untilIdle(p);
  });

  it('lets P answer (PUT) where D has not got the blocks in time', async () => {
    const { p, d } = await startPair({ sendType: 'PUT', deadlines: { put: 100 } });
    const transfer = p.open(makeRequestId(p.address, d.address), PROMPT, { maxTokens: 1 });
    const start = performance.now();
    await transfer?.answerable();
    expect(performance.now() - start).toBeGreaterThan(90);
    transfer?.end(false);
    await untilIdle(p, d);
  });

  it('ends the wait for a P that computes for ever', async () => {
    const { p, d } = await startPair({ deadlines: { load: 300, stall: 50, sweep: 20 } });
    const id = makeRequestId(p.address, d.address);
    const transfer = await startPrefill(p, d, id);
    expect(await decode(d, id, PROMPT)).toBe(0);
    expect(d.stats.receive.recomputed.late).toBe(1);
    await untilIdle(p, d);
    transfer.end(false);
  });

  it('that is shorter than a long computation does not end it', async () => {
    const stall = 1500;
    const { p, d } = await startPair({ deadlines: { stall, sweep: 20 } });
    const id = makeRequestId(p.address, d.address);
    const transfer = p.open(id, PROMPT, { maxTokens: 1 });
    const loading = startLoad(d, id, PROMPT);
    // The computation takes longer; what follows it has the whole deadline.
    await sleep(1.5 * stall);
    await p.compute(transfer?.sequences[0] ?? null, PROMPT, p.takeBlocks(PROMPT));
    transfer?.end(true);
    expect(await loaded(d, loading!)).toBe(40);
    expect(d.holds(PROMPT, loading!.blocks, 40)).toBe(true);
    await untilIdle(p, d);
  });
});
