// Ops of layers that keep a state of each sequence on the CUDA backend.

import { afterAll, expect, it } from 'vitest';
import { NotAvailableError } from '../../src/errors.ts';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
import {
  convolution,
  deltaRule,
  describeStateLaws,
  describeStateOps,
  selectiveScan,
  whole,
} from './recurrent-cases.ts';

describeCuda('states on a GPU', () => {
  const cuda = openCuda();
  afterAll(() => cuda.close());
  describeStateLaws(cuda);
  describeStateOps(cuda);

  it('are refused by their sizes where no kernel has them', () => {
    const refused = [convolution(4, 34, 'silu', false), deltaRule(1, 257, 1, 8), selectiveScan(1, 258, 1, 8)];
    expect(() => whole(cuda, refused[0]!)).toThrow(/convolutions over 34 tokens/);
    expect(() => whole(cuda, refused[1]!)).toThrow(/keys of 257 numbers/);
    expect(() => whole(cuda, refused[2]!)).toThrow(/keys of 258 numbers/);
    for (const layer of refused) expect(() => whole(cuda, layer)).toThrow(NotAvailableError);
  });
});
