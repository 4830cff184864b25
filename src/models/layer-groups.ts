// Which layers share a block table: those that see the same window. Where a model has several kinds, blocks of all groups are
// equally large, so that one pool serves all of them: a block has a row for each layer of a group, and few rows stay empty.

import type { ModelConfig } from './model-config.ts';

export interface LayerGroups {
  /** [layers with keys and values] the group of each. */
  readonly ofLayers: readonly number[];
  /** [groups] So many tokens, itself included, does a token see; null is all. Those that see furthest come first. */
  readonly windows: readonly (number | null)[];
}

/** One group where all layers see as far, and where prompts are computed at once, which takes all their blocks. */
export function groupLayers(
  config: Pick<ModelConfig, 'layerWindows' | 'encoder' | 'recurrent'>,
): LayerGroups {
  const { encoder, recurrent } = config;
  const layerWindows = config.layerWindows
    .filter((_, layer) => !recurrent?.layers[layer])
    .map((window) => (encoder === null ? window : null));
  const kinds = new Map<number | null, number[]>();
  for (const [layer, window] of layerWindows.entries()) {
    kinds.set(window, [...(kinds.get(window) ?? []), layer]);
  }
  const numRows = chooseNumRows([...kinds.values()].map(({ length }) => length));
  const ofLayers: number[] = [];
  const windows: (number | null)[] = [];
  for (const [window, layers] of [...kinds].sort(([a], [b]) => reachOf(b) - reachOf(a))) {
    const numGroups = Math.ceil(layers.length / numRows);
    // In turn, so that a row of all groups holds neighbours: it is complete long before the last layer is.
    for (const [index, layer] of layers.entries()) ofLayers[layer] = windows.length + (index % numGroups);
    windows.push(...new Array<number | null>(numGroups).fill(window));
  }
  return { ofLayers, windows };
}

function reachOf(window: number | null): number {
  return window ?? Number.MAX_SAFE_INTEGER;
}

/** The number of layers of one kind, such that the fewest rows are empty. */
function chooseNumRows(counts: readonly number[]): number {
  const totalOf = (rows: number): number =>
    counts.reduce((sum, count) => sum + Math.ceil(count / rows) * rows, 0);
  return counts.reduce((best, rows) => (totalOf(rows) < totalOf(best) ? rows : best));
}
