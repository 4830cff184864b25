// Many instances at once, some of them joining, draining and crashing each second: no request fails.

import { describe, expect, it } from 'vitest';
import { needsNative } from '../helpers/needs.ts';
import { runChurn } from './churn.ts';

describe('many instances, of which some come and go', needsNative, () => {
  it('answers every request while instances come and go', async () => {
    const report = await runChurn({ producers: 8, consumers: 12, processes: 2, seconds: 5, atOnce: 8 });
    expect(report).toMatchObject({ failed: 0, wrong: 0 });
    expect(report.requests).toBeGreaterThan(50);
    expect(report.crashed).toBeGreaterThan(0);
  });
});
