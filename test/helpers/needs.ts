// What a suite or a test needs: `describe('a transfer', needsNative, () => ...)`. Where that is missing it is skipped, and
// the closing lines of the run tell why.

import { networkInterfaces } from 'node:os';
import type { TestOptions } from 'vitest';
import { probeNative } from '../../src/native/native.ts';

declare module 'vitest' {
  interface TaskMeta {
    skipReason?: string;
  }
}

/** @param otherwise why it is skipped where `isMet` is false. */
export function needs(isMet: boolean, otherwise: string): TestOptions {
  return isMet ? {} : { skip: true, meta: { skipReason: otherwise } };
}

export const needsNative = needs(probeNative() !== null, 'the native addon is not built');

const addresses = Object.values(networkInterfaces()).flatMap((given = []) =>
  given.map(({ address }) => address),
);
export const needsIpv6 = needs(addresses.includes('::1'), 'this machine has no address ::1');

/** @param fixture null where it was not found. */
export function needsShared(fixture: unknown): TestOptions {
  return needs(fixture !== null, 'there are no shared fixtures beside this checkout');
}
