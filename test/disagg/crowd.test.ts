// Many instances at once, some of them joining, draining and crashing each second: no request fails.

import { describe, expect, it } from 'vitest';
import { needsNative } from '../helpers/needs.ts';
import { runCrowd } from './crowd.ts';

describe('a crowd of instances', needsNative, () => {
  it('answers every request while instances come and go', async () => {
    const report = await runCrowd({ producers: 8, consumers: 12, processes: 2, seconds: 5, atOnce: 8 });
    expect(report).toMatchObject({ failed: 0, wrong: 0 });
    expect(report.requests).toBeGreaterThan(50);
    expect(report.crashed).toBeGreaterThan(0);
  });
});
