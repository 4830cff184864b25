import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { groupLayers } from '../../src/models/layer-groups.ts';
import type { LayerHeads } from '../../src/models/model-config.ts';

const PLAIN = { encoder: null, recurrent: null, feedForwards: null, sharedKeys: null, layerHeads: null };

function grouped(layerWindows: readonly (number | null)[], layerHeads: readonly LayerHeads[] | null = null) {
  const { ofLayers, windows } = groupLayers({ ...PLAIN, layerWindows, layerHeads });
  return { ofLayers: [...ofLayers], windows: [...windows] };
}

function repeat<T>(count: number, values: readonly T[]): T[] {
  return Array.from({ length: count }, () => values).flat();
}

describe('groupLayers', () => {
  it.each([
    ['without windows', null],
    ['with one window', 64],
  ])('has one group of all layers of a model %s', (_, window) => {
    expect(grouped([window, window, window])).toEqual({ ofLayers: [0, 0, 0], windows: [window] });
  });

  it('pairs layers that alternate', () => {
    expect(grouped(repeat(3, [128, null]))).toEqual({ ofLayers: repeat(3, [1, 0]), windows: [null, 128] });
  });

  it('has a group for each layer of a period, where most layers have a window', () => {
    const { ofLayers, windows } = grouped(repeat(2, [8, 8, 8, 8, 8, null]));
    expect(windows).toEqual([null, 8, 8, 8, 8, 8]);
    expect(ofLayers).toEqual(repeat(2, [1, 2, 3, 4, 5, 0]));
  });

  it('leaves few rows empty: 22 layers with a window and 4 without are seven groups of up to 4', () => {
    const { windows } = grouped([...repeat(4, [9, 9, 9, 9, 9, null]), 9, 9]);
    expect(windows).toEqual([null, ...repeat(6, [9])]);
    expect(grouped([...repeat(6, [9, null]), 9]).windows).toEqual([null, 9]);
  });

  it('puts so many more layers into a block as their heads are smaller', () => {
    const heads = (kvHeads: number, headDim: number): LayerHeads => {
      return { kvHeads, headDim, rotaryDim: headDim, valuesAreKeys: false };
    };
    // 50 layers of 16 heads of 256, 10 of 4 heads of 512: two of these are as large as one of those.
    const windows = repeat(10, [9, 9, 9, 9, 9, null]);
    const large = windows.map((window) => (window === null ? heads(4, 512) : heads(16, 256)));
    expect(grouped(windows, large).windows).toEqual([null, ...repeat(10, [9])]);
    // 12 layers of one head of 256, 3 of one of 512.
    const few = repeat(3, [9, 9, 9, 9, null]);
    const small = few.map((window) => (window === null ? heads(1, 512) : heads(1, 256)));
    expect(grouped(few, small).windows).toEqual([null, 9, 9]);
  });

  it('keeps layers of other heads apart, whatever they see, and leaves those out that see the keys of others', () => {
    const one: LayerHeads = { kvHeads: 1, headDim: 8, rotaryDim: 8, valuesAreKeys: false };
    expect(grouped([null, null], [one, { ...one, headDim: 16 }]).ofLayers).toEqual([0, 1]);
    const sharedKeys = { sources: [0, 1, 0, 1] };
    expect(groupLayers({ ...PLAIN, layerWindows: [9, null, 9, null], sharedKeys })).toEqual({
      ofLayers: [1, 0],
      windows: [null, 9],
    });
  });

  it('puts layers of one window alone into a group, the widest first, and leaves no group empty', () => {
    const anyWindow = fc.constantFrom(null, 4, 100, 7);
    fc.assert(
      fc.property(fc.array(anyWindow, { minLength: 1, maxLength: 40 }), (layerWindows) => {
        const { ofLayers, windows } = grouped(layerWindows);
        expect(ofLayers.map((group) => windows[group])).toEqual(layerWindows);
        expect(new Set(ofLayers).size).toBe(windows.length);
        const reach = windows.map((window) => window ?? Number.POSITIVE_INFINITY);
        expect(reach).toEqual(reach.toSorted((a, b) => b - a));
      }),
    );
  });
});
