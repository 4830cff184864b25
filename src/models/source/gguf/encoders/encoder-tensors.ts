// The tensors of a model that sees images under the names that the original's checkpoints have: those of its encoder, and those of its text.

import { ModelLoadError } from '../../../../errors.ts';
import { isBlockDType } from '../../../../ops/dtype.ts';
import type { StoredTensor } from '../../safetensors.ts';
import { PAIRED_MODULES } from '../gguf-architecture.ts';
import type { EncoderFile } from './encoder-file.ts';
import { deepLayers, isFeedForwardSwapped } from './encoder-kind.ts';

/** What the text part's own names begin with. */
const TEXT_ROOT = 'model.';
/** Of what hears. */
const OF_SOUND = /^(a|mm\.a)\./;
/** The original has the patches of all frames of a film in one tensor. */
const SECOND_FRAME = 'v.patch_embd.weight.1';

/** @param tensors of the text part, as if it were published by itself. */
export function* textTensors(
  { kind }: EncoderFile,
  tensors: Iterable<[string, StoredTensor]>,
): Generator<[string, StoredTensor]> {
  for (const [name, tensor] of tensors) {
    const isInside = name.startsWith(TEXT_ROOT);
    yield [isInside ? kind.textRoot + name.slice(TEXT_ROOT.length) : name, tensor];
  }
}

export function* encoderTensors(encoder: EncoderFile): Generator<[string, StoredTensor]> {
  const { file, kind } = encoder;
  for (const [name, tensor] of file.tensors) {
    if (OF_SOUND.test(name) || name === SECOND_FRAME || kind.unused?.includes(name)) continue;
    const second = name === 'v.patch_embd.weight' ? file.tensors.get(SECOND_FRAME) : undefined;
    yield [
      publishedName(encoder, name),
      second ? withFrames(tensor, second) : withOrder(encoder, name, tensor),
    ];
  }
}

/** [hidden, 3, size, size] of each of two frames -> [hidden, 3, 2, size, size] */
function withFrames(first: StoredTensor, second: StoredTensor): StoredTensor {
  const [hidden = 0, colours = 0, ...size] = first.shape;
  if (first.shape.some((length, at) => length !== second.shape[at]) || first.dtype !== second.dtype) {
    throw new ModelLoadError(
      `${second.path}: tensor ${SECOND_FRAME} must be [${first.shape.join(', ')}] ${first.dtype} as that without .1, it is ` +
        `[${second.shape.join(', ')}] ${second.dtype}; convert the model again`,
    );
  }
  const byteLength = first.byteLength + second.byteLength;
  return { ...first, shape: [hidden, colours, 2, ...size], byteLength, frames: [first, second] };
}

/** What sees images is computed with in floats: blocks are only how they are published. */
function withOrder({ kind, keys }: EncoderFile, name: string, found: StoredTensor): StoredTensor {
  const [, module] = split(name);
  const stored = withDimensions(found, kind.dimensions?.[module] ?? 0);
  const tensor = isBlockDType(stored.dtype.toLowerCase()) ? { ...stored, isWidened: true } : stored;
  if (kind.hasPairedHeads && PAIRED_MODULES.includes(module)) {
    const heads = keys.need('vision.attention.head_count');
    return { ...tensor, pairedRows: keys.need('vision.embedding_length') / heads };
  }
  return module === kind.normFrom0 ? { ...tensor, added: 1 } : tensor;
}

function withDimensions(tensor: StoredTensor, count: number): StoredTensor {
  const missing = Math.max(0, count - tensor.shape.length);
  return { ...tensor, shape: [...new Array<number>(missing).fill(1), ...tensor.shape] };
}

function publishedName({ kind, keys }: EncoderFile, name: string): string {
  const [layer, module, ending] = split(name);
  if (layer !== null) {
    const own = isFeedForwardSwapped(keys) ? (known(SWAPPED, module) ?? module) : module;
    return `${kind.layers}.${layer}.${renamed(kind.layerModules, own, ending)}`;
  }
  const [, deepLayer, part] = /^v\.deepstack\.(\d+)\.(norm|fc1|fc2)$/.exec(module) ?? [];
  if (deepLayer !== undefined && kind.deepMergers !== undefined) {
    const index = deepLayers(keys).indexOf(Number(deepLayer));
    return `${kind.deepMergers}.${index}.${part === 'norm' ? part : `linear_${part}`}${ending}`;
  }
  return renamed(kind.modules, module, ending);
}

function renamed(names: Readonly<Record<string, string>>, module: string, ending: string): string {
  return known(names, module + ending) ?? (known(names, module) ?? module) + ending;
}

function known(names: Readonly<Record<string, string>>, name: string): string | null {
  return Object.hasOwn(names, name) ? names[name]! : null;
}

const SWAPPED: Readonly<Record<string, string>> = { ffn_up: 'ffn_down', ffn_down: 'ffn_up' };

const NAME = /^(?:v\.blk\.(\d+)\.)?(.+?)(\.weight|\.bias|\.(?:in|out)put_(?:min|max))?$/;

/** The layer of a tensor, null where it is of none, its module, and its ending or nothing. */
function split(name: string): readonly [layer: string | null, module: string, ending: string] {
  const [, layer, module = '', ending = ''] = NAME.exec(name) ?? [];
  return [layer ?? null, module, ending];
}
