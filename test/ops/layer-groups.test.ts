// A cache whose layers have block tables by group keeps and gives the same as one whose layers share theirs.

import { describe, expect, it } from 'vitest';
import { groupsOfRows, kvRowBytes, layerPlaces, numKvGroups, numKvRows } from '../../src/ops/kv-rows.ts';
import { selectOps } from '../../src/ops/select.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { describeLayerGroups, LAYER_GROUPS, SHAPE } from './layer-groups-cases.ts';

describe('rows and groups', () => {
  it('count the layers of each group in their order', () => {
    const shape = { ...SHAPE, layerGroups: LAYER_GROUPS };
    expect([numKvRows(shape), numKvGroups(shape)]).toEqual([2, 3]);
    expect(layerPlaces(shape).map(({ group, row }) => [group, row])).toEqual([
      ...[
        [0, 0],
        [1, 0],
        [1, 1],
      ],
      ...[
        [0, 1],
        [2, 0],
      ],
    ]);
    expect([numKvRows(SHAPE), numKvGroups(SHAPE)]).toEqual([5, 1]);
    expect(groupsOfRows(shape)).toEqual(LAYER_GROUPS);
  });

  it('count a row as full with the last of its layers', () => {
    const [small, large] = [1, 2].map((kvHeads) => ({ kvHeads, headDim: 8 }));
    const layerHeads = [small!, small!, large!, small!, small!];
    // Layers 0 and 3 share a row of group 1, layer 1 and 4 one of group 0.
    const shape = { ...SHAPE, layerHeads, layerGroups: [1, 0, 2, 1, 0] };
    expect(groupsOfRows(shape)).toEqual([2, 1, 0]);
  });

  it('put layers with few numbers beside each other into a row, if their heads are the same', () => {
    const [large, half, third] = [2, 1, 0.75].map((share) => ({ kvHeads: 4 * share, headDim: 8 }));
    const layerHeads = [half!, half!, large!, half!, third!];
    const shape = { ...SHAPE, layerHeads };
    const places = layerPlaces(shape).map(({ row, part, parts }) => [row, part, parts]);
    expect(places).toEqual([
      ...[
        [0, 0, 2],
        [0, 1, 2],
        [1, 0, 1],
      ],
      ...[
        [2, 0, 2],
        [3, 0, 2],
      ],
    ]);
    expect(numKvRows(shape)).toBe(4);
    expect(kvRowBytes(shape)).toBe(2 * 8 * 8 * 4);
  });
});

describe.each(availableBackends)('on %s, layers in groups', (device) => {
  const { ops } = selectOps({ ...ENGINE_DEFAULTS, device });
  describeLayerGroups(ops, { kvHeads: 1, headDim: 18 });
});
