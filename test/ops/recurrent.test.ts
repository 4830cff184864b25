// Ops of layers that keep a state of each sequence: against their definitions, and that a state follows from the tokens alone.

import { afterAll, describe } from 'vitest';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { describeEachIsa, openCpu } from './native-backends.ts';
import { describeStateLaws, describeStateOps } from './recurrent-cases.ts';

describe('states of the reference backend', () => describeStateLaws(new ReferenceOps()));

describeEachIsa('states', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());
  describeStateLaws(cpu);
  describeStateOps(cpu);
});
