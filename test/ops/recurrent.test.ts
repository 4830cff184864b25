// Ops of layers that keep a state of each sequence: against their definitions, and that a state follows from the tokens alone.

import { afterAll, describe } from 'vitest';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { describeEachIsa, openCpu } from './native-backends.ts';
import { describeStateLaws, describeStateOps, LAYERS, SCANS } from './recurrent-cases.ts';

const ALL = [...LAYERS, ...SCANS];

describe('states of the reference backend', () => describeStateLaws(new ReferenceOps(), ALL));

describeEachIsa('states', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());
  describeStateLaws(cpu, ALL);
  describeStateOps(cpu, ALL);
});
