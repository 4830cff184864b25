// Whatever ends or lies in the middle of a transfer between real servers whose model keeps states, or has layers with heads of their own: every
// request gets the bytes of one plain instance, and nothing is left over.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelFolder } from '../../src/models/model-folder.ts';
import { needsNative } from '../helpers/needs.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { writeHeadsModel } from '../helpers/tiny-models.ts';
import { answersOf, mixedRequests } from './mixed-requests.ts';
import { ServerFaultRig, type ServerScenario } from './server-fault-rig.ts';
import { STATE_MODEL } from './state-model.ts';

const REQUESTS = mixedRequests(8, 7);
/** No deadline of a transfer that is held for somebody who may yet come is as short. */
const FREE_WITHIN_MS = 9000;
const plainModel = await modelFolder('');
const withHeads = temporaryFolders()();
beforeAll(() => writeHeadsModel(withHeads));

describe.each([
  { what: 'states', model: plainModel, modelArgs: STATE_MODEL },
  { what: 'rows that layers share', model: withHeads, modelArgs: [] },
])('a fault in a transfer of $what', needsNative, ({ model, modelArgs }) => {
  let rig: ServerFaultRig;
  beforeAll(async () => {
    const plain = await startServeProcess([model, '--num-threads', '1', ...modelArgs]);
    const expected = await answersOf(plain.url, REQUESTS, REQUESTS.length).finally(() => plain.stop());
    rig = await ServerFaultRig.start({
      model,
      requests: REQUESTS,
      expected,
      sendType: 'PUT_ASYNC',
      transport: 'tcp',
      serveArgs: ['--max-num-batched-tokens', '64', ...modelArgs],
    });
  });
  afterAll(() => rig?.close());

  it.each<ServerScenario>([
    { fault: 'flip', side: 'D', step: 'data' },
    { fault: 'kill', side: 'P', step: 'data' },
    { fault: 'kill', side: 'D', step: 'data' },
  ])('$fault of $side at $step costs no answer', async (scenario) => {
    const outcome = await rig.run(scenario);
    expect(outcome).toMatchObject({ hasHappened: true, wrong: [] });
    if (scenario.fault === 'flip') expect(outcome.recomputed).toBeGreaterThan(0);
    else expect(outcome.exitCode).toBeNull();
    expect(outcome.freeMs).toBeLessThan(FREE_WITHIN_MS);
  });
});
