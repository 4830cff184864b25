// Whatever ends, lies or falls silent in the middle of a transfer between real servers of unequal degree: every request gets the bytes of
// one plain instance, and nothing is left over. Some faults here; `npm run bench -- rank-faults` ends a rank at each step.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelFolder } from '../../src/models/model-folder.ts';
import { needsNative } from '../helpers/needs.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { answersOf, mixedRequests } from './mixed-requests.ts';
import { ServerFaultRig, type ServerScenario } from './server-fault-rig.ts';

/** The first is for instances that have yet to meet. */
const FROM_RANKS: readonly ServerScenario[] = [
  { fault: 'half-open', side: 'D', step: 'hello' },
  { fault: 'flip', side: 'D', step: 'data' },
  { fault: 'kill', side: 'P', step: 'data' },
  { fault: 'kill', side: 'D', step: 'received' },
  { fault: 'end of rank 1', side: 'P', step: 'reserve' },
  { fault: 'end of rank 1', side: 'P', step: 'data' },
];
const TO_RANKS: readonly ServerScenario[] = [
  { fault: 'half-open', side: 'D', step: 'data' },
  { fault: 'kill', side: 'D', step: 'data' },
  { fault: 'end of rank 1', side: 'D', step: 'hello' },
  { fault: 'end of rank 1', side: 'D', step: 'data' },
  { fault: 'end of rank 1', side: 'D', step: 'received' },
];
/** D reads the memory of P: no data passes the wiretap. */
const IN_MEMORY: readonly ServerScenario[] = [
  { fault: 'kill', side: 'D', step: 'received' },
  { fault: 'end of rank 1', side: 'D', step: 'granted' },
];
const PULLED: readonly ServerScenario[] = [
  { fault: 'flip', side: 'D', step: 'data' },
  { fault: 'end of rank 1', side: 'P', step: 'pulled' },
];
/** The first layer leaves when the prompt is computed. */
const AFTERWARDS: readonly ServerScenario[] = [{ fault: 'end of rank 1', side: 'P', step: 'granted' }];

const TCP = { sendType: 'PUT_ASYNC', transport: 'tcp' } as const;
const SHM = { sendType: 'PUT_ASYNC', transport: 'shm' } as const;
const PUT = { sendType: 'PUT', transport: 'tcp' } as const;
const GET = { sendType: 'GET', transport: 'tcp' } as const;
const RANKS = ['--tensor-parallel-size', '2', '--num-threads', '2'];
const REQUESTS = mixedRequests(8, 7);
/** No deadline of a transfer that is held for somebody who may yet come is as short. */
const FREE_WITHIN_MS = 9000;
const model = await modelFolder('');

// Instances that start leave one of two cores idle, deadlines both: all groups run at the same time.
describe.concurrent('a fault in a transfer', needsNative, () => {
  let expected: unknown[];
  beforeAll(async () => {
    const plain = await startServeProcess([model, '--num-threads', '1']);
    expected = await answersOf(plain.url, REQUESTS, REQUESTS.length).finally(() => plain.stop());
  });

  describe.each([
    { name: 'from 2 ranks to 1', producerArgs: RANKS, ...TCP, scenarios: FROM_RANKS },
    { name: 'from 1 rank to 2', consumerArgs: RANKS, ...TCP, scenarios: TO_RANKS },
    { name: 'from 1 rank to 2', consumerArgs: RANKS, ...SHM, scenarios: IN_MEMORY },
    { name: 'from 2 ranks to 1', producerArgs: RANKS, ...PUT, scenarios: AFTERWARDS },
    { name: 'from 2 ranks to 1', producerArgs: RANKS, ...GET, scenarios: PULLED },
  ])('$name with $sendType over $transport', ({ name: _, scenarios, ...args }) => {
    let rig: ServerFaultRig;
    beforeAll(async () => {
      rig = await ServerFaultRig.start({
        model,
        requests: REQUESTS,
        expected,
        serveArgs: ['--max-num-batched-tokens', '64'],
        ...args,
      });
    });
    afterAll(() => rig?.close());

    it.sequential.each(scenarios)('$fault of $side at $step costs no answer', async (scenario) => {
      const { fault, step } = scenario;
      const outcome = await rig.run(scenario);
      expect(outcome).toMatchObject({ hasHappened: true, wrong: [] });
      if (step === 'received') expect(outcome.transports).toEqual([args.transport]);
      if (fault === 'flip') expect(outcome.recomputed).toBeGreaterThan(0);
      if (fault === 'kill') expect(outcome.exitCode).toBeNull();
      if (fault === 'end of rank 1') {
        expect(outcome.exitCode).toBe(1);
        expect(outcome.said).toMatch(/the engine has died: .*rank 1(: its thread)? has ended/);
      }
      expect(outcome.freeMs).toBeLessThan(FREE_WITHIN_MS);
    });
  });
});
