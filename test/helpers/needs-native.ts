import { beforeEach } from 'vitest';
import { probeNative } from '../../src/native/native.ts';

/** To be called at the top of a test file: skips all its tests where the addon is not built. */
export function needsNative(): void {
  beforeEach(({ skip }) => skip(probeNative() === null, 'the native addon is not built'));
}
