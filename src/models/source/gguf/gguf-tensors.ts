// The tensors of a GGUF file under the names and in the shapes that the original's checkpoints have.

import { ModelLoadError } from '../../../errors.ts';
import type { StoredTensor } from '../safetensors.ts';
import {
  type GgufArchitecture,
  LAYER_MODULES,
  LAYERS,
  MODEL_MODULES,
  PAIRED_MODULES,
  ROPE_TENSORS,
} from './gguf-architectures.ts';
import { MOST_TENSORS } from './gguf-file.ts';

/**
 * @param path of the file, for messages
 * @param headDim numbers of a head of queries and keys
 * @throws ModelLoadError where there are more than any model has.
 */
export function publishedTensors(
  path: string,
  tensors: ReadonlyMap<string, StoredTensor>,
  architecture: GgufArchitecture,
  headDim: number,
): Map<string, StoredTensor> {
  const published = new Map<string, StoredTensor>();
  for (const [name, tensor] of tensors) {
    if (ROPE_TENSORS.includes(name)) continue;
    for (const [original, part] of publishedAs(name, tensor, architecture, headDim)) {
      if (published.size === MOST_TENSORS) {
        throw new ModelLoadError(
          `${path}: tensor ${name} [${tensor.shape.join(', ')}] has too many experts, the file would hold more than ${MOST_TENSORS} ` +
            'tensors; it is damaged, fetch it again',
        );
      }
      published.set(original, part);
    }
  }
  return published;
}

/** A tensor that has no name there keeps its own; in a layer it is still one of that layer. */
function* publishedAs(
  name: string,
  tensor: StoredTensor,
  architecture: GgufArchitecture,
  headDim: number,
): Generator<[string, StoredTensor]> {
  const { modelModules = MODEL_MODULES, hasPairedHeads, hasNormsFrom0, hasTurnedMatrices } = architecture;
  const [, layer, module = '', kind] = /^(?:blk\.(\d+)\.)?(.+)\.(weight|bias)$/.exec(name) ?? [];
  const added = hasNormsFrom0 && module.endsWith('norm') ? 1 : 0;
  if (layer === undefined) {
    yield [
      Object.hasOwn(modelModules, module) ? `${modelModules[module]}.${kind}` : name,
      { ...tensor, added },
    ];
    return;
  }
  const original = nameInLayer(architecture, layer, module, kind!);
  if (original.includes('*')) {
    yield* partsOf(original, tensor);
    return;
  }
  // A matrix of one row, which converters write as a vector.
  if (original.endsWith('shared_expert_gate.weight') && tensor.shape.length === 1) {
    yield [original, { ...tensor, shape: [1, ...tensor.shape] }];
    return;
  }
  if (hasPairedHeads && PAIRED_MODULES.includes(module)) yield [original, { ...tensor, pairedRows: headDim }];
  else if (hasTurnedMatrices && tensor.shape.length === 2) yield [original, { ...tensor, isTurned: true }];
  else yield [original, { ...tensor, added }];
}

function nameInLayer(
  { modules = {}, layers = LAYERS }: GgufArchitecture,
  layer: string,
  module: string,
  kind: string,
): string {
  const ofTensor = `${module}.${kind}`;
  if (Object.hasOwn(modules, ofTensor)) return `${layers}.${layer}.${modules[ofTensor]}`;
  const known = Object.hasOwn(modules, module) ? modules : LAYER_MODULES;
  return `${layers}.${layer}.${Object.hasOwn(known, module) ? known[module] : module}.${kind}`;
}

/** Those of experts, or of heads, [parts, ...], one after the other. */
function* partsOf(name: string, tensor: StoredTensor): Generator<[string, StoredTensor]> {
  const [count = 1, ...shape] = tensor.shape;
  const byteLength = tensor.byteLength / count;
  for (let part = 0; part < count; part += 1) {
    const byteOffset = tensor.byteOffset + part * byteLength;
    yield [name.replace('*', String(part)), { ...tensor, shape, byteOffset, byteLength }];
  }
}
