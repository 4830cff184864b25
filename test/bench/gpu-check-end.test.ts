// What scripts/gpu-check is to stop: tests of which one comes to an end, and one does not where it is told so.

import { expect, it } from 'vitest';

it('comes to an end', () => {
  expect(process.env.SVC_TEST_GPUS ?? '0').toBe('0');
});

it.skipIf(process.env.SVC_TEST_ENDLESS === undefined)('never comes to an end', async () => {
  // What the first one has come to is told by then.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  for (;;);
});
