// The tensors of a GGUF file under the names and in the shapes that the original's checkpoints have.

import type { StoredTensor } from '../safetensors.ts';
import {
  type GgufArchitecture,
  LAYER_MODULES,
  MODEL_MODULES,
  PAIRED_MODULES,
  ROPE_TENSORS,
} from './gguf-architectures.ts';

/** No model has more: each expert of a tensor becomes one of its own. */
const MOST_EXPERTS = 4096;

/** @param headDim numbers of a head of queries and keys */
export function publishedTensors(
  tensors: ReadonlyMap<string, StoredTensor>,
  architecture: GgufArchitecture,
  headDim: number,
): Map<string, StoredTensor> {
  const published = new Map<string, StoredTensor>();
  for (const [name, tensor] of tensors) {
    if (ROPE_TENSORS.includes(name)) continue;
    for (const [original, part] of publishedAs(name, tensor, architecture, headDim)) {
      published.set(original, part);
    }
  }
  return published;
}

/** A tensor that has no name there keeps its own; in a layer it is still one of that layer. */
function* publishedAs(
  name: string,
  tensor: StoredTensor,
  { modules, hasPairedHeads = false, hasNormsFrom0 = false }: GgufArchitecture,
  headDim: number,
): Generator<[string, StoredTensor]> {
  const [, layer, module = '', kind] = /^(?:blk\.(\d+)\.)?(.+)\.(weight|bias)$/.exec(name) ?? [];
  const added = hasNormsFrom0 && module.endsWith('norm') ? 1 : 0;
  if (layer === undefined) {
    yield [
      Object.hasOwn(MODEL_MODULES, module) ? `${MODEL_MODULES[module]}.${kind}` : name,
      { ...tensor, added },
    ];
    return;
  }
  const original = `model.layers.${layer}.${modules?.[module] ?? LAYER_MODULES[module] ?? module}.${kind}`;
  if (original.includes('*') && tensor.shape[0]! <= MOST_EXPERTS) {
    yield* expertsOf(original, tensor);
    return;
  }
  // A matrix of one row, which converters write as a vector.
  if (original.endsWith('shared_expert_gate.weight') && tensor.shape.length === 1) {
    yield [original, { ...tensor, shape: [1, ...tensor.shape] }];
    return;
  }
  const isPaired = hasPairedHeads && PAIRED_MODULES.includes(module);
  yield [original, isPaired ? { ...tensor, pairedRows: headDim } : { ...tensor, added }];
}

/** [experts, ...] one after the other. */
function* expertsOf(name: string, tensor: StoredTensor): Generator<[string, StoredTensor]> {
  const [count = 1, ...shape] = tensor.shape;
  const byteLength = tensor.byteLength / count;
  for (let expert = 0; expert < count; expert += 1) {
    const byteOffset = tensor.byteOffset + expert * byteLength;
    yield [name.replace('*', String(expert)), { ...tensor, shape, byteOffset, byteLength }];
  }
}
