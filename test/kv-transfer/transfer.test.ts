// Blocks between instances of one process: real control channels, real native threads, each way that a transfer can go.

import { describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import { COMPATIBILITY, SLOT_BYTES } from '../helpers/kv-instance.ts';
import {
  closeInstancesAfterEach,
  decode,
  loaded,
  prefill,
  promptOf,
  startInstance,
  startLoad,
  startPair,
  untilIdle,
} from '../helpers/kv-requests.ts';
import { needsNative } from '../helpers/needs.ts';
import { until } from '../helpers/until.ts';

const SEND_TYPES = ['PUT_ASYNC', 'PUT', 'GET'] as const;
closeInstancesAfterEach();

describe('a prompt', needsNative, () => {
  describe.each(SEND_TYPES)('with %s', (sendType) => {
    it.each(['shm', 'tcp'] as const)('comes from P to D by %s, bit for bit', async (transport) => {
      const { p, d } = await startPair({ sendType, transport });
      for (const length of [2, 4, 5, 8, 9, 40, 97]) {
        const [prompt, id] = [promptOf(length, length), makeRequestId(p.address, d.address)];
        const send = await prefill(p, id, prompt);
        if (sendType !== 'GET') await expect.poll(() => d.stats.receive.receiveBuffers).toBe(1);
        expect(await decode(d, id, prompt)).toBe(length - 1);
        await expect
          .poll(() => p.commandsOf(send))
          .toEqual([{ kind: 'release', transferId: send?.transferId }]);
        await untilIdle(p, d);
      }
      expect(p.stats.send).toMatchObject({ delivered: 7, expired: 0, cancelled: 0, failed: 0 });
      const [pushed, pulled] = sendType === 'GET' ? [0, 7] : [7, 0];
      expect(d.stats.receive).toMatchObject({
        pushed,
        pulled,
        viaBuffer: 7,
        viaPool: 0,
        corruptLayerBlocks: 0,
      });
      expect(Object.values(d.stats.receive.recomputed)).toEqual([0, 0, 0, 0, 0, 0]);
      expect(d.stats.receive.loadedTokens).toBe(2 + 4 + 5 + 8 + 9 + 40 + 97 - 7);
    });

    it('is not used for a prompt of the same tokens and other extra keys', async () => {
      const { p, d } = await startPair({ sendType });
      const [prompt, id] = [promptOf(30), makeRequestId(p.address, d.address)];
      await prefill(p, id, prompt);
      const transfer = d.open(id, prompt, { extraKeys: [{ position: 0, key: ['salt', 'mine'] }] });
      const load = transfer?.sequences[0] ?? null;
      if (transfer !== null && load !== null) {
        const blocks = d.takeBlocks(prompt);
        d.connector.consumer.onTransferEvent({
          kind: 'load',
          transferId: load.transferId,
          firstBlock: 0,
          blocks,
        });
        expect(await loaded(d, { transfer, load, blocks })).toBe(0);
        transfer.end(true);
      }
      expect(d.stats.receive.recomputed.mismatch).toBe(1);
    });

    it('may be called for at D before P has it', async () => {
      // D asks again until then.
      const { p, d } = await startPair({ sendType, deadlines: { unknown: 10_000 } });
      const [prompt, id] = [promptOf(30), makeRequestId(p.address, d.address)];
      const early = decode(d, id, prompt);
      await expect.poll(() => p.stats.peers, { interval: 100 }).toBe(1);
      await prefill(p, id, prompt);
      expect(await early).toBe(29);
      await untilIdle(p, d);
    });

    it('may be called for at D while P computes it', async () => {
      const { p, d } = await startPair({ sendType });
      const [prompt, id] = [promptOf(40), makeRequestId(p.address, d.address)];
      const transfer = p.open(id, prompt, { maxTokens: 1 });
      const send = transfer?.sequences[0] ?? null;
      const blocks = p.takeBlocks(prompt);
      const early = decode(d, id, prompt);
      for (let index = 0; index < blocks.length; index += 1) {
        p.computeStep(send, prompt, blocks, index, index + 1);
        await until(() => p.stats.peers === 1);
      }
      await transfer?.answerable();
      transfer?.end(true);
      expect(await early).toBe(39);
      await untilIdle(p, d);
    });

    it('comes in part where D has its beginning', async () => {
      const { p, d } = await startPair({ sendType });
      const [prompt, id] = [promptOf(30), makeRequestId(p.address, d.address)];
      await prefill(p, id, prompt);
      expect(await decode(d, id, prompt, 3)).toBe(29);
      expect(d.stats.receive.loadedTokens).toBe(29 - 3 * COMPATIBILITY.blockSize);
      await untilIdle(p, d);
    });

    it('comes in full blocks only where P goes on to write', async () => {
      const { p, d } = await startPair({ sendType });
      const [prompt, id] = [promptOf(30), makeRequestId(p.address, d.address)];
      const transfer = p.open(id, prompt, { maxTokens: 5 });
      await p.compute(transfer?.sequences[0] ?? null, prompt, p.takeBlocks(prompt));
      await transfer?.answerable();
      transfer?.end(true);
      expect(await decode(d, id, prompt)).toBe(28);
      await untilIdle(p, d);
    });

    it('comes once for several samples', async () => {
      const { p, d } = await startPair({ sendType });
      const [prompt, id] = [promptOf(30), makeRequestId(p.address, d.address)];
      await prefill(p, id, prompt);
      const transfer = d.open(id, prompt, { numSamples: 3 });
      const loads = transfer?.sequences ?? [];
      expect(new Set(loads.map((load) => load?.transferId)).size).toBe(3);
      const blocks = loads.map(() => d.takeBlocks(prompt));
      for (const [index, load] of loads.slice(0, 2).entries()) {
        d.connector.consumer.onTransferEvent({
          kind: 'load',
          transferId: load!.transferId,
          firstBlock: 0,
          blocks: blocks[index]!,
        });
      }
      d.connector.consumer.onTransferEvent({ kind: 'loadEnded', transferId: loads[2]!.transferId });
      await expect.poll(() => d.commands.length).toBe(2);
      for (const index of [0, 1]) expect(d.holds(prompt, blocks[index]!, 29)).toBe(true);
      await untilIdle(p, d);
      expect(p.stats.send.delivered).toBe(1);
    });

    it('of several in one request is told apart by its number', async () => {
      const { p, d } = await startPair({ sendType });
      const id = makeRequestId(p.address, d.address);
      const prompts = [promptOf(30, 1), promptOf(30, 2)];
      const sends = prompts.map((prompt, promptIndex) => p.open(id, prompt, { promptIndex, maxTokens: 1 }));
      const loads = prompts.map((prompt, promptIndex) => d.open(id, prompt, { promptIndex }));
      const all = prompts.map(async (prompt, index) => {
        await p.compute(sends[index]!.sequences[0] ?? null, prompt, p.takeBlocks(prompt));
        await sends[index]!.answerable();
        sends[index]!.end(true);
        const [load] = loads[index]!.sequences;
        const blocks = d.takeBlocks(prompt);
        d.connector.consumer.onTransferEvent({
          kind: 'load',
          transferId: load!.transferId,
          firstBlock: 0,
          blocks,
        });
        await expect.poll(() => d.commandsOf(load)).toMatchObject([{ numTokens: 29 }]);
        expect(d.holds(prompt, blocks, 29)).toBe(true);
      });
      await Promise.all(all);
      await untilIdle(p, d);
    });
  });

  it('that P still holds is what P waits for before it says that everything is delivered', async () => {
    const { p, d } = await startPair({ sendType: 'GET' });
    await p.connector.producer.delivered();
    const [prompt, id] = [promptOf(20), makeRequestId(p.address, d.address)];
    await prefill(p, id, prompt);
    const holding = p.connector.producer.delivered().then(() => p.stats.send.holding);
    expect(p.stats.send.holding).toBe(1);
    expect(await decode(d, id, prompt)).toBe(19);
    expect(await holding).toBe(0);
    await untilIdle(p, d);
  });

  it('goes either way between two that are both', async () => {
    const [a, b] = [await startInstance({ role: 'kv_both' }), await startInstance({ role: 'kv_both' })];
    for (const [p, d] of [
      [a, b],
      [b, a],
      [a, b],
    ] as const) {
      const [prompt, id] = [promptOf(20), makeRequestId(p.address, d.address)];
      await prefill(p, id, prompt);
      expect(await decode(d, id, prompt)).toBe(19);
    }
    await untilIdle(a, b);
    expect(a.open(makeRequestId(a.address, a.address), promptOf(20))).toBeNull();
    expect(a.open(makeRequestId(b.address, b.address), promptOf(20))).toBeNull();
  });

  it.each(['cmpl-1234', 'chatcmpl-___prefill_addr_1.2.3.4:5_', ''])(
    'of request %j is an ordinary one',
    async (id) => {
      const { p, d } = await startPair();
      expect(p.open(id, promptOf(20))).toBeNull();
      expect(d.open(id, promptOf(20))).toBeNull();
    },
  );

  it('of one token is an ordinary one', async () => {
    const { p, d } = await startPair();
    const id = makeRequestId(p.address, d.address);
    expect(p.open(id, [1], { maxTokens: 1 })).toBeNull();
    expect(d.open(id, [1])).toBeNull();
  });

  it('that must be computed at D is freed at P', async () => {
    const { p, d } = await startPair();
    const [prompt, id] = [promptOf(30), makeRequestId(p.address, d.address)];
    const arrived = prefill(p, id, prompt);
    expect(d.open(id, prompt, { mayLoad: false })).toBeNull();
    await arrived;
    await expect.poll(() => p.stats.send.holding).toBe(0);
    await untilIdle(d);
  });
});

describe('without room at D', needsNative, () => {
  const PROMPT = promptOf(4 * 10 + 1);

  it('the buffer comes first, then the pool, then P holds until there is room', async () => {
    const { p, d } = await startPair({
      bufferBytes: 10 * SLOT_BYTES,
      poolBytes: 2 ** 14,
    });
    const ids = [0, 1, 2].map(() => makeRequestId(p.address, d.address));
    for (const id of ids) await prefill(p, id, PROMPT);
    await expect.poll(() => d.stats.receive.receiveBuffers).toBe(2);
    expect(d.stats.receive.bufferUsedBytes).toBe(10 * SLOT_BYTES);
    expect(d.stats.receive.poolUsedBytes).toBe(10 * SLOT_BYTES);
    await expect.poll(() => p.stats.send).toMatchObject({ delivered: 2, holding: 1 });
    // The third is pulled when its request comes and the first has left its place.
    const third = startLoad(d, ids[2]!, PROMPT);
    expect(await decode(d, ids[0]!, PROMPT)).toBe(40);
    expect(await loaded(d, third!)).toBe(40);
    expect(d.commands.at(-1)?.transferId).toBe(third!.load.transferId);
    third!.transfer.end(true);
    expect(await decode(d, ids[1]!, PROMPT)).toBe(40);
    expect(d.stats.receive).toMatchObject({ pushed: 2, pulled: 1, viaBuffer: 2, viaPool: 1 });
    await untilIdle(p, d);
  });

  it('a pool whose size nobody has said takes what is left beside the buffer', async () => {
    const bufferBytes = 10 * SLOT_BYTES;
    const { p, d } = await startPair({
      bufferBytes,
      poolBytes: null,
      receiveRoom: bufferBytes + 19 * SLOT_BYTES,
    });
    expect(d.warnings).toEqual([]);
    const ids = [0, 1, 2].map(() => makeRequestId(p.address, d.address));
    for (const id of ids) await prefill(p, id, PROMPT);
    await expect.poll(() => p.stats.send).toMatchObject({ delivered: 2, holding: 1 });
    expect(d.stats.receive.poolUsedBytes).toBe(10 * SLOT_BYTES);
    for (const id of ids) expect(await decode(d, id, PROMPT)).toBe(40);
    await untilIdle(p, d);
  });

  it('of the machine for buffer and pool, D says so, and there is no pool unless somebody says it', async () => {
    const bufferBytes = 10 * SLOT_BYTES;
    const small = { bufferBytes, receiveRoom: 9 * SLOT_BYTES };
    const message =
      /^kv_buffer_size and mem_pool_size_gb may take 15\.0 KiB, more than the 13\.5 KiB that are left/;
    const { p, d } = await startPair({ ...small, poolBytes: null });
    expect([p.warnings, d.warnings]).toEqual([[], [expect.stringMatching(message)]]);
    const fitting = await startPair({ bufferBytes, poolBytes: 2 ** 14, receiveRoom: bufferBytes + 2 ** 14 });
    expect(fitting.d.warnings).toEqual([]);
  });

  it('for this request ever, D computes it at once and P is told', async () => {
    const { p, d } = await startPair({ bufferBytes: 9 * SLOT_BYTES, poolBytes: 2 ** 13 });
    const id = makeRequestId(p.address, d.address);
    await prefill(p, id, PROMPT);
    expect(p.stats.send.holding).toBe(1);
    expect(d.open(id, PROMPT)).toBeNull();
    await untilIdle(p, d);
    expect(d.stats.receive.recomputed.no_room).toBe(1);
    expect(p.stats.send.cancelled).toBe(1);
  });

  it('in time, D computes it', async () => {
    const { p, d } = await startPair({
      bufferBytes: 10 * SLOT_BYTES,
      poolBytes: 0,
      deadlines: { room: 100, sweep: 20 },
    });
    const ids = [0, 1].map(() => makeRequestId(p.address, d.address));
    for (const id of ids) await prefill(p, id, PROMPT);
    expect(await decode(d, ids[1]!, PROMPT)).toBe(0);
    expect(d.stats.receive.recomputed.no_room).toBe(1);
    expect(await decode(d, ids[0]!, PROMPT)).toBe(40);
    await untilIdle(p, d);
  });

  it.each(['PUT', 'PUT_ASYNC'] as const)('at all, %s answers and nothing is kept', async (sendType) => {
    const { p, d } = await startPair({ bufferBytes: 0, poolBytes: 0, sendType });
    expect(p.warnings).toEqual([]);
    expect(d.warnings).toEqual([
      `kv_buffer_size 0 and mem_pool_size_gb have no room for one block of ${SLOT_BYTES} bytes: this instance receives nothing, and computes all prompts itself`,
    ]);
    const id = makeRequestId(p.address, d.address);
    await prefill(p, id, PROMPT);
    expect(d.open(id, PROMPT)).toBeNull();
    await untilIdle(p, d);
  });

  it('at P to hold, GET gives up the oldest', async () => {
    // D is told that it is gone, and does not ask on until the deadline.
    const deadlines = { unknown: 60_000 };
    const { p, d } = await startPair({ sendType: 'GET', deadlines }, { bufferBytes: 20 * SLOT_BYTES });
    const ids = [0, 1, 2].map(() => makeRequestId(p.address, d.address));
    for (const id of ids) await prefill(p, id, PROMPT);
    await expect.poll(() => p.stats.send).toMatchObject({ expired: 1, holding: 2 });
    expect(await decode(d, ids[2]!, PROMPT)).toBe(40);
    expect(await decode(d, ids[1]!, PROMPT)).toBe(40);
    expect(await decode(d, ids[0]!, PROMPT)).toBe(0);
    expect(d.stats.receive.recomputed.unknown).toBe(1);
    await untilIdle(p, d);
  });

  it('at P to hold even one, GET sends nothing', async () => {
    const { p, d } = await startPair({ sendType: 'GET' }, { bufferBytes: 10 });
    const id = makeRequestId(p.address, d.address);
    expect(await prefill(p, id, PROMPT)).toBeNull();
    expect(await decode(d, id, PROMPT)).toBe(0);
    expect(p.stats.send.expired).toBe(1);
  });
});
