// How long prompts with images take: what sees them does most of the work, and reading the file comes before.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { EngineCore } from '../src/engine/engine-core.ts';
import type { PreparedImage } from '../src/images/image-processor.ts';
import { loadImageProcessor } from '../src/images/load-image-processor.ts';
import { openModelSource } from '../src/models/source/model-source.ts';
import type { NewRequest } from '../src/scheduler/request.ts';
import { tinyPicture } from '../test/fixtures/tiny-vision-model.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import { newRequest } from '../test/helpers/new-request.ts';
import { CPU_ISA, measureMachine } from './machine.ts';
import { type Figure, median, type Section } from './report.ts';

const PLACEHOLDER = 49_190;
const RUNS = 3;

/** Of the layers of a part of a model. */
interface Layers {
  readonly width: number;
  readonly inner: number;
  readonly layers: number;
  readonly heads: number;
}

type Size = readonly [width: number, height: number];

interface Shape {
  readonly name: string;
  readonly picture: Size;
  /** Beside which another answer is timed. */
  readonly largest: Size;
  readonly vision: Layers;
  readonly text: Layers & { readonly kvHeads: number; readonly headDim: number };
  /** Patches on each side of which one token is made. */
  readonly mergeSize: number;
  readonly architecture: string;
  /** What its config.json has beside the layers. */
  readonly vision_config: object;
  readonly whole?: object;
  readonly images: object;
}

const SMOLVLM: Shape = {
  name: 'SmolVLM 256M',
  picture: [1600, 1200],
  largest: [2048, 2048],
  vision: { width: 768, inner: 3072, layers: 12, heads: 12 },
  text: { width: 576, inner: 1536, layers: 30, heads: 9, kvHeads: 3, headDim: 64 },
  mergeSize: 4,
  architecture: 'SmolVLMForConditionalGeneration',
  vision_config: { num_hidden_layers: 12, num_attention_heads: 12, image_size: 512, patch_size: 16 },
  whole: { scale_factor: 4 },
  images: { size: { longest_edge: 2048 }, max_image_size: { longest_edge: 512 } },
};

const QWEN3_VL: Shape = {
  name: 'Qwen3-VL 2B',
  picture: [1024, 768],
  largest: [2048, 2048],
  vision: { width: 1024, inner: 4096, layers: 24, heads: 16 },
  text: { width: 2048, inner: 6144, layers: 28, heads: 16, kvHeads: 8, headDim: 128 },
  mergeSize: 2,
  architecture: 'Qwen3VLForConditionalGeneration',
  vision_config: { depth: 24, num_heads: 16, patch_size: 16, deepstack_visual_indexes: [5, 11, 17] },
  images: { size: { shortest_edge: 65_536, longest_edge: 16_777_216 }, patch_size: 16 },
};

/** Which has a token for the whole of each tile. */
const INTERNVL: Shape = {
  name: 'InternVL3 1B',
  picture: [1024, 768],
  largest: [1024, 768],
  vision: { width: 1024, inner: 4096, layers: 24, heads: 16 },
  text: { width: 896, inner: 4864, layers: 24, heads: 14, kvHeads: 2, headDim: 64 },
  mergeSize: 2,
  architecture: 'InternVLForConditionalGeneration',
  vision_config: { num_hidden_layers: 24, num_attention_heads: 16, image_size: 448, patch_size: 14 },
  images: { size: { height: 448, width: 448 } },
};

export async function imageSection(): Promise<Section> {
  const figures: Figure[] = [];
  for (const shape of [SMOLVLM, QWEN3_VL, INTERNVL]) figures.push(...(await figuresOf(shape)));
  return {
    title: 'Images, random weights',
    figures,
    notes: [
      'The limit is the products of all layers alone, of patches and of tokens, at the speed of the matrix units. Reading takes one thread.',
    ],
  };
}

async function figuresOf(shape: Shape): Promise<Figure[]> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  writeFileSync(join(folder, 'config.json'), JSON.stringify(configOf(shape)));
  writeFileSync(join(folder, 'preprocessor_config.json'), JSON.stringify(shape.images));
  const core = await EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath: folder,
    loadFormat: 'dummy',
    dtype: 'bfloat16',
    cpuIsa: CPU_ISA,
    kvCacheMemoryBytes: 2 ** 30,
  });
  try {
    const { reading, image } = await readPicture(shape.picture, folder);
    const { image: largest } = await readPicture(shape.largest, folder);
    const seconds = median(Array.from({ length: RUNS }, (_, run) => secondsToFirstToken(core, image, run)));
    const { name, picture } = shape;
    const [width, height] = picture;
    const read = { value: 1 / reading, limit: null, goal: null };
    const { matrixFlops } = measureMachine();
    return [
      { name: `${name}: read a picture of ${width} x ${height}`, unit: 'pictures/s', ...read },
      {
        name: `${name}: its ${image.numTokens} tokens, to the first token`,
        value: image.numTokens / seconds,
        unit: 'tokens/s',
        limit: matrixFlops / flopsOfToken(shape),
        goal: null,
      },
      {
        name: `${name}: longest wait of another answer beside ${largest.numTokens} tokens`,
        value: longestWait(core, largest),
        unit: 's',
        limit: null,
        goal: null,
      },
    ];
  } finally {
    core.close();
    rmSync(folder, { recursive: true });
  }
}

async function readPicture(
  picture: Size,
  folder: string,
): Promise<{ readonly reading: number; readonly image: PreparedImage }> {
  const file = await tinyPicture(1, ...picture);
  const processor = loadImageProcessor(openModelSource(folder))!;
  // The first one loads the decoder.
  const { image } = await processor.read(file);
  const times: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    const startedAt = performance.now();
    await processor.read(file);
    times.push((performance.now() - startedAt) / 1000);
  }
  return { reading: median(times), image };
}

/** Nothing of a run is there for the next: the image has another hash. */
function requestFor(image: PreparedImage, run: number): NewRequest {
  const positions = Array.from({ length: image.numTokens }, (_, index) => 4 + index);
  const promptTokenIds = [5 + run, 1, 2, 3, ...positions.map(() => PLACEHOLDER), 4];
  const images = [{ image: { ...image, hash: String(run) }, positions }];
  return newRequest({ id: run, promptTokenIds, images, stop: { maxTokens: 1 } });
}

function secondsToFirstToken(core: EngineCore, image: PreparedImage, run: number): number {
  const startedAt = performance.now();
  core.scheduler.add(requestFor(image, run));
  while (core.hasUnfinished) core.step();
  return (performance.now() - startedAt) / 1000;
}

/** In seconds, between two tokens of a request that runs when one with the image comes. */
function longestWait(core: EngineCore, image: PreparedImage): number {
  const [other, seeing] = [RUNS + 1, RUNS];
  const wait = { longest: 0, since: performance.now() };
  core.scheduler.add(newRequest({ id: other, promptTokenIds: [1, 2, 3], stop: { maxTokens: 1000 } }));
  core.step();
  core.scheduler.add(requestFor(image, seeing));
  for (let isSeen = false; !isSeen; ) {
    for (const { requestId } of (core.step() ?? []).flatMap(({ outputs }) => outputs)) {
      isSeen ||= requestId === seeing;
      if (requestId !== other) continue;
      const now = performance.now();
      wait.longest = Math.max(wait.longest, now - wait.since);
      wait.since = now;
    }
  }
  core.scheduler.abort(other);
  return wait.longest / 1000;
}

/** Of its patches and of itself, in all layers. */
function flopsOfToken({ vision, text, mergeSize }: Shape): number {
  const ofPatch = vision.layers * (4 * vision.width ** 2 + 2 * vision.width * vision.inner);
  const attention = 2 * text.width * (text.heads + text.kvHeads) * text.headDim;
  return 2 * (mergeSize ** 2 * ofPatch + text.layers * (attention + 3 * text.width * text.inner));
}

function configOf({ architecture, vision, vision_config, text, whole }: Shape): object {
  return {
    ...whole,
    architectures: [architecture],
    image_token_id: PLACEHOLDER,
    torch_dtype: 'bfloat16',
    vision_config: { hidden_size: vision.width, intermediate_size: vision.inner, ...vision_config },
    text_config: {
      hidden_size: text.width,
      intermediate_size: text.inner,
      num_hidden_layers: text.layers,
      num_attention_heads: text.heads,
      num_key_value_heads: text.kvHeads,
      head_dim: text.headDim,
      vocab_size: 49_280,
      max_position_embeddings: 8192,
      rms_norm_eps: 1e-5,
      rope_theta: 100_000,
    },
  };
}
