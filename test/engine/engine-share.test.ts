import { expect, it } from 'vitest';
import { engineShares } from '../../src/engine/engine-share.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';

it('several engines have equal shares of the KV memory and of what is free', () => {
  const config = { ...ENGINE_DEFAULTS, dataParallelSize: 3, kvCacheMemoryBytes: 301 };
  expect(engineShares(config, () => 3001)).toEqual(
    [0, 1, 2].map((rank) => ({ ...config, kvCacheMemoryBytes: 100, share: { rank, memoryBytes: 1000 } })),
  );
});

it('one engine has all of it, whatever that is', () => {
  const fail = () => {
    throw new Error('measured');
  };
  expect(engineShares(ENGINE_DEFAULTS, fail)).toEqual([ENGINE_DEFAULTS]);
});
