// Writes models with random weights in the shapes of real ones as GGUF, in the formats of a file that is called Q4_K_M: random blocks, of
// which some are there again and again.

import { readModelConfig } from '../src/models/registry.ts';
import { openModelSource } from '../src/models/source/model-source.ts';
import { type GgmlType, type GgufTensor, tensorBytes, writeGguf } from '../test/fixtures/gguf-writer.ts';
import { publishedTensors } from '../test/fixtures/published-tensors.ts';
import { randomBlocks } from '../test/helpers/random-blocks.ts';
import { ggufMetadata, ggufName } from './peers/gguf-model.ts';
import type { RandomModelShape } from './random-model.ts';

/** Numbers of each format that are drawn: whole blocks of all of them. */
const DRAWN = 1 << 16;
/** Of the random numbers. */
const SIZE = 1 / 32;
const MODULUS = 2 ** 31 - 1;

/** @param folder holds config.json. */
export function writeRandomGguf(folder: string, path: string, shape: RandomModelShape): void {
  const config = readModelConfig(openModelSource(folder));
  const tensors = publishedTensors(config).map(
    ({ name, shape: sizes }): GgufTensor => ({
      name: ggufName(name),
      shape: sizes,
      type: sizes.length === 1 ? 'F32' : typeOf(name, sizes[1]!, config.numLayers),
    }),
  );
  const drawn = new Map<GgmlType, Uint8Array>();
  const architecture = shape === 'llama-3.2-1b' ? 'llama' : 'qwen2';
  writeGguf(path, ggufMetadata(config, architecture), tensors, function* (tensor) {
    const { type } = tensor;
    const piece = drawn.get(type) ?? draw(type);
    drawn.set(type, piece);
    for (let left = tensorBytes(tensor); left > 0; left -= piece.length) {
      yield piece.subarray(0, Math.min(left, piece.length));
    }
  });
}

/** Half of the values and down projections, and the embeddings, have more bits; rows that are no whole blocks have others. */
function typeOf(name: string, k: number, layers: number): GgmlType {
  const layer = Number(/\.layers\.(\d+)\./.exec(name)?.[1] ?? -1);
  const isMixed =
    /\.(v_proj|down_proj)\./.test(name) &&
    (layer < layers / 8 || layer >= (layers * 7) / 8 || layer % 3 === 2);
  const hasMore = layer < 0 || isMixed;
  if (k % 256 === 0) return hasMore ? 'Q6_K' : 'Q4_K';
  return hasMore ? 'Q8_0' : 'Q5_0';
}

function draw(type: GgmlType): Uint8Array {
  let state = 1;
  const next = (): number => {
    state = (state * 48_271) % MODULUS;
    return state / MODULUS;
  };
  if (type === 'F32')
    return new Uint8Array(Float32Array.from({ length: DRAWN }, () => 1 + next() / 4).buffer);
  return randomBlocks(type.toLowerCase() as Parameters<typeof randomBlocks>[0], DRAWN, next, SIZE);
}
