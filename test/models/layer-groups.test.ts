import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { groupLayers } from '../../src/models/layer-groups.ts';

function grouped(layerWindows: readonly (number | null)[]) {
  const { ofLayers, windows } = groupLayers({ layerWindows, encoder: null, recurrent: null });
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
