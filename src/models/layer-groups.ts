// Which layers share a block table: those that see the same window and have the same heads. Where a model has several kinds, blocks of
// all groups are equally large, so that one pool serves all of them: a block has a row for each layer of a group, or for several with
// smaller heads, and few rows stay empty.

import { partsInRow } from '../ops/kv-rows.ts';
import type { ModelConfig } from './model-config.ts';
import { type Kept, keepsKeys } from './recurrent-layers.ts';

export interface LayerGroups {
  /** [layers with keys and values] the group of each. */
  readonly ofLayers: readonly number[];
  /** [groups] So many tokens, itself included, does a token see; null is all. Those that see furthest come first. */
  readonly windows: readonly (number | null)[];
}

type Grouped = Kept & Pick<ModelConfig, 'layerWindows' | 'layerHeads' | 'encoder'>;

/** Layers that may share a block table. */
interface Kind {
  readonly window: number | null;
  /** Layers of the kind that a row holds. */
  readonly parts: number;
  readonly layers: number[];
}

/** One group where all layers are of one kind, and where prompts are computed at once, which takes all their blocks. */
export function groupLayers(config: Grouped): LayerGroups {
  const kinds = kindsOf(config);
  const numRows = chooseNumRows(kinds);
  const ofLayers: number[] = [];
  const windows: (number | null)[] = [];
  for (const { window, parts, layers } of kinds.sort((a, b) => reachOf(b.window) - reachOf(a.window))) {
    const numGroups = Math.ceil(layers.length / (numRows * parts));
    // In turn, so that a row of all groups holds neighbours: it is complete long before the last layer is.
    for (const [index, layer] of layers.entries()) ofLayers[layer] = windows.length + (index % numGroups);
    windows.push(...new Array<number | null>(numGroups).fill(window));
  }
  return { ofLayers, windows };
}

/** By layers with keys and values. */
function kindsOf(config: Grouped): Kind[] {
  const kept = [...config.layerWindows.keys()].filter((layer) => keepsKeys(config, layer));
  const heads = config.layerHeads && kept.map((layer) => config.layerHeads![layer]!);
  const parts = heads && partsInRow(heads);
  const kinds = new Map<string, Kind>();
  for (const [index, layer] of kept.entries()) {
    const window = config.encoder === null ? (config.layerWindows[layer] ?? null) : null;
    const name = `${window} ${heads?.[index]?.kvHeads} ${heads?.[index]?.headDim}`;
    const kind = kinds.get(name) ?? { window, parts: parts?.[index] ?? 1, layers: [] };
    kind.layers.push(index);
    kinds.set(name, kind);
  }
  return [...kinds.values()];
}

function reachOf(window: number | null): number {
  return window ?? Number.MAX_SAFE_INTEGER;
}

/** The rows that the layers of one kind need, such that the fewest are empty. */
function chooseNumRows(kinds: readonly Kind[]): number {
  const counts = kinds.map(({ layers, parts }) => Math.ceil(layers.length / parts));
  const totalOf = (rows: number): number =>
    counts.reduce((sum, count) => sum + Math.ceil(count / rows) * rows, 0);
  return counts.reduce((best, rows) => (totalOf(rows) < totalOf(best) ? rows : best));
}
