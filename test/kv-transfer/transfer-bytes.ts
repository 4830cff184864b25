// How many bytes of keys and values a transfer has.

import { transferGroups } from '../../src/kv-cache/block-groups.ts';
import type { KvCompatibility } from '../../src/kv-transfer/connector.ts';

/** Of the first `numTokens` tokens of a prompt: each layer has only what it still sees. */
export function transferBytes(
  { layerGroups = [], layerBlockBytes, ...groups }: KvCompatibility,
  numTokens: number,
): number {
  const numLayers = (group: number) => layerGroups.filter((one) => one === group).length;
  const layerBlocks = transferGroups(groups, numTokens).reduce((sum, group) => sum + numLayers(group), 0);
  return layerBlocks * layerBlockBytes;
}
