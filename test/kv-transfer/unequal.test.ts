// Instances of unequal degree or block size exchange blocks, whoever asks first; those that cannot do not, and say why.

import { describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import type { KvInstance, KvInstanceOptions } from '../helpers/kv-instance.ts';
import {
  closeInstancesAfterEach,
  decode,
  prefill,
  promptOf,
  startLoad,
  startPair,
  untilIdle,
} from '../helpers/kv-requests.ts';
import { needsNative } from '../helpers/needs.ts';
import { until } from '../helpers/until.ts';

const SEND_TYPES = ['PUT_ASYNC', 'PUT', 'GET'] as const;
closeInstancesAfterEach();

type Kind = Pick<KvInstanceOptions, 'degree' | 'blockSize'>;

const PAIRS: readonly (readonly [string, Kind, Kind])[] = [
  ['2 ranks to 1', { degree: 2 }, {}],
  ['1 rank to 4', {}, { degree: 4 }],
  ['blocks of 4 to blocks of 16', { blockSize: 4 }, { blockSize: 16 }],
  ['blocks of 16 to blocks of 4', { blockSize: 16 }, { blockSize: 4 }],
  ['4 ranks and small blocks to 1 and large', { degree: 4, blockSize: 4 }, { blockSize: 8 }],
];

function recomputed(d: KvInstance): number {
  return Object.values(d.stats.receive.recomputed).reduce((sum, count) => sum + count, 0);
}

describe.each(PAIRS)('from %s', (_, ofP, ofD) => {
  describe.each(SEND_TYPES)('with %s', (sendType) => {
    it.each(['shm', 'tcp'] as const)('prompts come by %s, bit for bit', needsNative, async (transport) => {
      const { p, d } = await startPair({ sendType, transport, ...ofD }, { degree: 1, blockSize: 4, ...ofP });
      for (const length of [2, 17, 97]) {
        const [prompt, id] = [promptOf(length, length), makeRequestId(p.address, d.address)];
        await prefill(p, id, prompt);
        expect(await decode(d, id, prompt)).toBe(length - 1);
        await untilIdle(p, d);
      }
      expect([p.stats.send.delivered, recomputed(d)]).toEqual([3, 0]);
    });

    it('come in part where D has their beginning, or P goes on to write', needsNative, async () => {
      const { p, d } = await startPair({ sendType, ...ofD }, { degree: 1, blockSize: 4, ...ofP });
      const [prompt, id] = [promptOf(60), makeRequestId(p.address, d.address)];
      await prefill(p, id, prompt);
      expect(await decode(d, id, prompt, 2)).toBe(59);
      await untilIdle(p, d);
      const next = makeRequestId(p.address, d.address);
      const transfer = p.open(next, prompt, { maxTokens: 5 });
      await p.compute(transfer?.sequences[0] ?? null, prompt, p.takeBlocks(prompt));
      await transfer?.answerable();
      transfer?.end(true);
      const blockSize = ofP.blockSize ?? 4;
      expect(await decode(d, next, prompt)).toBe(59 - (59 % blockSize));
      await untilIdle(p, d);
      expect(recomputed(d)).toBe(0);
    });
  });
});

describe.each(SEND_TYPES)('an unequal pair with %s', (sendType) => {
  const start = () =>
    startPair({ sendType, degree: 2, blockSize: 8, deadlines: { hold: 2000 } }, { degree: 4, blockSize: 4 });
  const prompt = promptOf(41);

  it('of which P ends in the middle leaves nothing behind', needsNative, async () => {
    const { p, d } = await start();
    const id = makeRequestId(p.address, d.address);
    const transfer = p.open(id, prompt, { maxTokens: 1 });
    p.computeStep(transfer?.sequences[0] ?? null, prompt, p.takeBlocks(prompt), 0, 3);
    const loading = startLoad(d, id, prompt);
    if (sendType === 'PUT_ASYNC') await until(() => d.stats.receive.bytes > 0);
    await p.close();
    await until(() => d.commandsOf(loading?.load).length === 1);
    expect(d.commandsOf(loading?.load)).toMatchObject([{ kind: 'loaded', numTokens: 0 }]);
    await untilIdle(d);
  });

  it('of which D ends in the middle frees the blocks of P', needsNative, async () => {
    const { p, d } = await start();
    const id = makeRequestId(p.address, d.address);
    const transfer = p.open(id, prompt, { maxTokens: 1 });
    const send = transfer?.sequences[0] ?? null;
    const blocks = p.takeBlocks(prompt);
    p.computeStep(send, prompt, blocks, 0, 3);
    startLoad(d, id, prompt);
    await until(() => p.stats.peers === 1);
    await d.close();
    p.computeStep(send, prompt, blocks, 3, blocks.length);
    transfer?.end(true);
    await untilIdle(p);
  });
});

it.each([
  [
    'block sizes that do not divide each other',
    { blockSize: 8 },
    { blockSize: 12 },
    'neither divides the other',
  ],
  ['other numbers of heads', { compatibility: { heads: 8 } }, {}, 'the number of KV heads differs'],
] as const)('%s: D computes prompts itself, and both say why', needsNative, async (_, ofP, ofD, reason) => {
  const { p, d } = await startPair({ sendType: 'PUT_ASYNC', ...ofD }, ofP);
  const [prompt, id] = [promptOf(30), makeRequestId(p.address, d.address)];
  await prefill(p, id, prompt);
  expect(await decode(d, id, prompt)).toBe(0);
  expect(p.warnings).toEqual([expect.stringContaining(reason)]);
  expect(d.warnings).toEqual([expect.stringContaining(reason)]);
  await untilIdle(p, d);
});
