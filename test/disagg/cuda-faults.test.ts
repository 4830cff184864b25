// Instances that die or stop in the middle of transfers between emulated GPUs: every request is answered, rightly, in time, and nothing is left
// over. What passes from GPU to GPU passes no wiretap: the steps are those of the control messages.

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { needsCudaEmulators } from '../helpers/cuda-emulator.ts';
import { FaultRig, type Scenario } from './fault-rig.ts';

const OF_PUSHES: readonly Scenario[] = [
  { fault: 'kill', side: 'P', step: 'granted' },
  { fault: 'kill', side: 'D', step: 'granted' },
  { fault: 'stop', side: 'P', step: 'granted' },
  { fault: 'kill', side: 'P', step: 'received' },
  { fault: 'kill', side: 'D', step: 'received' },
];
const OF_PULLS: readonly Scenario[] = [
  { fault: 'kill', side: 'P', step: 'pulled' },
  { fault: 'kill', side: 'D', step: 'pulled' },
  { fault: 'stop', side: 'D', step: 'pulled' },
];
/** A stopped instance is given up after one missed heartbeat, in place of three. */
const PROXY_DEADLINES = { late: 4500, expiry: 6500, sweep: 100 };

// Most of the time is waiting for deadlines: all rigs wait at the same time.
describe.concurrent('a fault between GPUs', needsCudaEmulators, () => {
  beforeAll(() => void vi.stubEnv('SVC_EMULATED_GPUS', '2'));
  afterAll(() => void vi.unstubAllEnvs());

  describe.each([
    { sendType: 'PUT_ASYNC', transport: 'cuda-ipc', consumerDegree: 2, scenarios: OF_PUSHES },
    { sendType: 'GET', transport: 'cuda-ipc', consumerDegree: 1, scenarios: OF_PULLS },
    { sendType: 'PUT_ASYNC', transport: 'nccl', consumerDegree: 2, scenarios: OF_PUSHES },
  ] as const)('$sendType over $transport to degree $consumerDegree', ({ scenarios, ...group }) => {
    let rig: FaultRig;
    beforeAll(async () => {
      rig = await FaultRig.start({ ...group, deadlines: PROXY_DEADLINES });
    });
    afterAll(() => rig?.close());

    it.sequential.each(scenarios)('$fault of $side at $step costs no answer', async (scenario) => {
      const outcome = await rig.run(scenario);
      expect(outcome).toMatchObject({ hasHappened: true, wrong: 0, failures: [], leftOver: 0 });
      expect(outcome.right).toBe(outcome.requests);
      expect(outcome.slowestMs).toBeLessThan(outcome.allowedMs);
      expect(await rig.transports()).toEqual([group.transport]);
    });
  });
});
