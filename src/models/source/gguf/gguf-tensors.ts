// The tensors of a GGUF file under the names and in the shapes that the original's checkpoints have.

import { ModelLoadError } from '../../../errors.ts';
import { storedBytes } from '../../../ops/dtype.ts';
import { MAX_LAYERS } from '../../model-config.ts';
import type { StoredTensor } from '../safetensors.ts';
import {
  type GgufArchitecture,
  LAYER_MODULES,
  LAYERS,
  MODEL_MODULES,
  PAIRED_MODULES,
  ROPE_TENSORS,
} from './gguf-architecture.ts';
import { F32_ITEMS, type GgufFile, MOST_TENSORS } from './gguf-file.ts';

const F32_BYTES = 4;

/** Heads of queries, and the numbers of a head of queries and keys. */
export interface Heads {
  readonly count: number;
  readonly dim: number;
}

/** @throws ModelLoadError where there are more than any model has, or a list is not of numbers of f32. */
export function publishedTensors(
  { path, tensors, metadata }: GgufFile,
  architecture: GgufArchitecture,
  heads: Heads,
): Map<string, StoredTensor> {
  const published = new Map(numbersOfLayers(path, metadata, architecture));
  for (const [name, tensor] of tensors) {
    if (ROPE_TENSORS.includes(name)) continue;
    for (const [original, part] of withScales(name, tensor, architecture, heads)) {
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

/** Each a tensor of one number, where it is among the keys. */
function* numbersOfLayers(
  path: string,
  metadata: GgufFile['metadata'],
  { layerNumbers = {}, layers = LAYERS }: GgufArchitecture,
): Generator<[string, StoredTensor]> {
  for (const [key, name] of Object.entries(layerNumbers)) {
    const list = metadata.get(key);
    if (list === undefined) continue;
    if (typeof list !== 'object' || list.itemType !== F32_ITEMS || list.count > MAX_LAYERS) {
      throw new ModelLoadError(
        `${path}: ${key} must be a list of f32, one for each layer; convert the model again`,
      );
    }
    for (let layer = 0; layer < list.count; layer += 1) {
      const byteOffset = list.position + F32_BYTES * layer;
      const number = { path, dtype: 'F32', shape: [1], byteOffset, byteLength: F32_BYTES };
      yield [`${layers}.${layer}.${name}`, number];
    }
  }
}

/** A tensor of I2_S becomes two: its blocks, or those of a part, and the f32 behind all of them that is their scale. */
function* withScales(
  name: string,
  tensor: StoredTensor,
  architecture: GgufArchitecture,
  heads: Heads,
): Generator<[string, StoredTensor]> {
  if (tensor.dtype !== 'I2_S') return yield* publishedAs(name, tensor, architecture, heads);
  const { path, byteOffset } = tensor;
  const byteLength = storedBytes(
    'i2_s',
    tensor.shape.reduce((all, size) => all * size, 1),
  );
  const scale = { path, dtype: 'F32', shape: [], byteOffset: byteOffset + byteLength, byteLength: F32_BYTES };
  for (const [original, part] of publishedAs(name, { ...tensor, byteLength }, architecture, heads)) {
    yield [original, part];
    yield [`${original}_scale`, scale];
  }
}

/** A tensor that has no name there keeps its own; in a layer it is still one of that layer. */
function* publishedAs(
  name: string,
  tensor: StoredTensor,
  architecture: GgufArchitecture,
  heads: Heads,
): Generator<[string, StoredTensor]> {
  const { modelModules = MODEL_MODULES, hasPairedHeads, hasNormsFrom0, hasTurnedMatrices } = architecture;
  const [, layer, module = '', ending = ''] = /^(?:blk\.(\d+)\.)?(.+?)(\.weight|\.bias)?$/.exec(name) ?? [];
  const isNorm = module.endsWith('norm') && ending === '.weight' && module !== 'ssm_norm';
  const added = hasNormsFrom0 && isNorm ? 1 : 0;
  if (layer === undefined) {
    const original = Object.hasOwn(modelModules, module) ? `${modelModules[module]}${ending}` : name;
    if (original.includes('*')) yield* partsOf(original, tensor);
    else yield [original, { ...tensor, shape: publishedShape(original, tensor.shape), added }];
    return;
  }
  if (architecture.joinsQkv && module === 'attn_qkv') {
    for (const [part, own] of qkvOf(tensor, heads)) {
      yield [nameInLayer(architecture, layer, part, ending), own];
    }
    return;
  }
  const original = nameInLayer(architecture, layer, module, ending);
  if (original.includes('*')) {
    yield* partsOf(original, tensor);
    return;
  }
  if (hasPairedHeads && PAIRED_MODULES.includes(module))
    yield [original, { ...tensor, pairedRows: heads.dim }];
  else if (hasTurnedMatrices && tensor.shape.length === 2) yield [original, { ...tensor, isTurned: true }];
  else yield [original, { ...tensor, shape: publishedShape(original, tensor.shape), added }];
}

/** Matrices that may have one row. */
const ONE_ROW = /(shared_expert_gate|token_type_embeddings|^classifier|^score)\.weight$/;

/**
 * Converters leave out dimensions of one: the row of a matrix that has one, and what a channel of a convolution sees of others. They make
 * matrices of the vectors of a scan: a row of each head, or of each group.
 */
function publishedShape(name: string, shape: readonly number[]): readonly number[] {
  const [rows = 0, ...columns] = shape;
  if (ONE_ROW.test(name) && shape.length === 1) return [1, rows];
  if (/\bconv(1d)?\.weight$/.test(name) && shape.length === 2) return [rows, 1, ...columns];
  if (/\.(mamba|mixer)\.(rates|D|norm\.weight)$/.test(name))
    return [shape.reduce((all, size) => all * size, 1)];
  return shape;
}

function nameInLayer(
  { modules = {}, layers = LAYERS }: Pick<GgufArchitecture, 'modules' | 'layers'>,
  layer: string,
  module: string,
  ending: string,
): string {
  const ofTensor = `${module}${ending}`;
  // Older converters wrote a tensor for each expert.
  const [, stack, expert] = /^(ffn_(?:gate|up|down))\.(\d+)$/.exec(module) ?? [];
  if (expert !== undefined) {
    return nameInLayer({ modules, layers }, layer, `${stack}_exps`, ending).replace('*', expert);
  }
  if (Object.hasOwn(modules, ofTensor)) return `${layers}.${layer}.${modules[ofTensor]}`;
  const known = Object.hasOwn(modules, module) ? modules : LAYER_MODULES;
  return `${layers}.${layer}.${Object.hasOwn(known, module) ? known[module] : module}${ending}`;
}

/** Rows of queries, then those of keys, then as many of values. */
function* qkvOf(tensor: StoredTensor, { count, dim }: Heads): Generator<[string, StoredTensor]> {
  const [rows = 0, ...columns] = tensor.shape;
  const others = Math.floor((rows - count * dim) / 2);
  const rowBytes = tensor.byteLength / rows;
  let { byteOffset } = tensor;
  for (const [module, own] of [
    ['attn_q', count * dim],
    ['attn_k', others],
    ['attn_v', others],
  ] as const) {
    const byteLength = own * rowBytes;
    yield [module, { ...tensor, shape: [own, ...columns], byteOffset, byteLength }];
    byteOffset += byteLength;
  }
}

/** Those of experts, of heads, or of streams, [parts, ...], one after the other. */
function* partsOf(name: string, tensor: StoredTensor): Generator<[string, StoredTensor]> {
  const [count = 1, ...shape] = tensor.shape;
  const byteLength = tensor.byteLength / count;
  for (let part = 0; part < count; part += 1) {
    const byteOffset = tensor.byteOffset + part * byteLength;
    yield [name.replace('*', String(part)), { ...tensor, shape, byteOffset, byteLength }];
  }
}
