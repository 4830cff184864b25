// How much the layers of a model keep of each sequence in the place of keys and values.

import { headStatesWidth, type StateShape } from '../ops/states.ts';
import type { ModelConfig } from './model-config.ts';
import type { RankShare } from './rank-share.ts';
import type { DeltaConfig, RecurrentConfig, ScanConfig } from './recurrent-config.ts';
import { type Kept, ofKind } from './recurrent-layers.ts';

/** The states of all layers for so many sequences, as a rank has them; undefined where there are none. */
export function stateShape(
  config: Kept & Pick<ModelConfig, 'numLayers' | 'hiddenSize'>,
  slots: number,
  share: RankShare,
): StateShape | undefined {
  const { recurrent, hiddenSize, numLayers } = config;
  if (recurrent === null) return undefined;
  const layers = ofKind(config, { first: 0, end: numLayers }, true).end;
  return { layers, slots, width: stateWidth(recurrent, hiddenSize, share) };
}

/** Numbers that a layer keeps of a sequence. */
function stateWidth(recurrent: RecurrentConfig, hiddenSize: number, share: RankShare): number {
  const { delta, scan } = recurrent;
  if (delta !== undefined) {
    const own = shareOfDelta(delta, share);
    return convolutionWidth(recurrent, deltaChannels(own)) + headStatesWidth(own);
  }
  if (scan !== undefined) {
    const own = shareOfScan(scan, share);
    const { heads, stateDim, headDim } = own;
    const states = headStatesWidth({ heads, keyDim: stateDim, valueDim: headDim });
    return convolutionWidth(recurrent, scanChannels(own)) + states;
  }
  return convolutionWidth(recurrent, share.of(hiddenSize).count);
}

/** Numbers that the convolution of a layer keeps; what follows keeps its own behind them. */
export function convolutionWidth({ taps }: RecurrentConfig, channels: number): number {
  return (taps - 1) * channels;
}

/** Queries, keys and values, one after the other. */
export function deltaChannels({ keyHeads, keyDim, heads, valueDim }: DeltaConfig): number {
  return 2 * keyHeads * keyDim + heads * valueDim;
}

/** What is scanned, how it is written and how it is read, one after the other. */
export function scanChannels({ groups, stateDim, heads, headDim }: ScanConfig): number {
  return heads * headDim + 2 * groups * stateDim;
}

/** The heads of a rank, and their groups: where there is one, every rank has it. */
export function shareOfScan(scan: ScanConfig, share: RankShare): ScanConfig {
  const groups = scan.groups === 1 ? 1 : share.of(scan.groups).count;
  return { ...scan, groups, heads: share.of(scan.heads).count };
}

/** The heads of a rank. */
export function shareOfDelta(delta: DeltaConfig, share: RankShare): DeltaConfig {
  return { ...delta, keyHeads: share.of(delta.keyHeads).count, heads: share.of(delta.heads).count };
}
