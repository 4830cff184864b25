// Whatever dies, stops or lies in the middle of a transfer: every request is answered, rightly, in time, and nothing is
// left over. Some faults here; `npm run bench -- faults` puts each into each step.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { needsNative } from '../helpers/needs.ts';
import { FaultRig, type Scenario } from './fault-rig.ts';

const SEND_TYPES = ['PUT_ASYNC', 'PUT', 'GET'] as const;
/** A hello comes first, or after a kill: new instances meet the others without further ones being started. */
const OF_TCP: readonly Scenario[] = [
  { fault: 'stop', side: 'P', step: 'hello' },
  { fault: 'kill', side: 'P', step: 'data' },
  { fault: 'kill', side: 'D', step: 'data' },
  { fault: 'half-open', side: 'D', step: 'hello' },
  { fault: 'stop', side: 'D', step: 'data' },
  { fault: 'reset', side: 'D', step: 'data' },
  { fault: 'flip', side: 'D', step: 'data' },
  { fault: 'kill', side: 'D', step: 'received' },
];
/** D reads the memory of P: no data passes the wiretap. */
const OF_SHM: readonly Scenario[] = (['kill', 'stop'] as const).flatMap((fault) =>
  (['P', 'D'] as const).map((side) => ({ fault, side, step: 'received' })),
);
/** A stopped instance is given up after one missed heartbeat, in place of three. */
const PROXY_DEADLINES = { late: 4500, expiry: 6500, sweep: 100 };

// Most of the time is waiting for deadlines: all rigs wait at the same time.
describe.concurrent('a fault in a transfer', needsNative, () => {
  describe.each([
    ...SEND_TYPES.map((sendType) => ({ sendType, transport: 'tcp' as const, scenarios: OF_TCP })),
    { sendType: 'PUT_ASYNC' as const, transport: 'shm' as const, scenarios: OF_SHM },
  ])('with $sendType over $transport', ({ sendType, transport, scenarios }) => {
    let rig: FaultRig;
    beforeAll(async () => {
      rig = await FaultRig.start({ sendType, transport, deadlines: PROXY_DEADLINES });
    });
    afterAll(() => rig?.close());

    it.sequential.each(scenarios)('$fault of $side at $step costs no answer', async (scenario) => {
      const outcome = await rig.run(scenario);
      expect(outcome).toMatchObject({ hasHappened: true, wrong: 0, failures: [], leftOver: 0 });
      expect(outcome.right).toBe(outcome.requests);
      expect(outcome.slowestMs).toBeLessThan(outcome.allowedMs);
    });
  });
});
