// Caches whose layers have block tables by group, or heads of their own, on the CUDA backend.

import { afterAll } from 'vitest';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
import { describeLayerGroups } from './layer-groups-cases.ts';

describeCuda('on a GPU, layers in groups', () => {
  const cuda = openCuda();
  afterAll(() => cuda.close());
  describeLayerGroups(cuda, { kvHeads: 1, headDim: 24 });
});
