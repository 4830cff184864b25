// How long prompts with images take, in the shape of SmolVLM 256M: what sees the tiles does most of the work, and reading the file comes before.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { EngineCore } from '../src/engine/engine-core.ts';
import { Idefics3Processor } from '../src/images/idefics3-processor.ts';
import type { PreparedImage } from '../src/images/image-processor.ts';
import { tinyPicture } from '../test/fixtures/tiny-vision-model.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import { newRequest } from '../test/helpers/new-request.ts';
import { CPU_ISA, measureMachine } from './machine.ts';
import { median, type Section } from './report.ts';

const VISION = { hidden_size: 768, intermediate_size: 3072, num_hidden_layers: 12, num_attention_heads: 12 };
const TEXT = { hidden_size: 576, intermediate_size: 1536, num_hidden_layers: 30, num_attention_heads: 9 };
const TILE = { image_size: 512, patch_size: 16 };
const SCALE = 4;
const PATCHES = (TILE.image_size / TILE.patch_size) ** 2;
const TOKENS = PATCHES / SCALE ** 2;
const PLACEHOLDER = 49_190;
const RUNS = 3;

export async function imageSection(): Promise<Section> {
  const { matrixFlops } = measureMachine();
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  writeFileSync(join(folder, 'config.json'), JSON.stringify(configOf()));
  writeFileSync(join(folder, 'preprocessor_config.json'), '{}');
  const core = await EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath: folder,
    loadFormat: 'dummy',
    dtype: 'bfloat16',
    cpuIsa: CPU_ISA,
    kvCacheMemoryBytes: 2 ** 28,
  });
  try {
    const { reading, image } = await readPicture();
    const numTiles = image.tiles.length;
    const seconds = median(Array.from({ length: RUNS }, (_, run) => secondsToFirstToken(core, image, run)));
    return {
      title: 'Images, SmolVLM 256M, random weights',
      figures: [
        {
          name: 'read a picture of 1600 x 1200',
          value: 1 / reading,
          unit: 'pictures/s',
          limit: null,
          goal: null,
        },
        {
          name: `its ${numTiles} tiles, ${numTiles * TOKENS} tokens, to the first token`,
          value: numTiles / seconds,
          unit: 'tiles/s',
          limit: matrixFlops / (flopsOfTile() + flopsOfTokens()),
          goal: null,
        },
      ],
      notes: [
        'The limit is the products of all layers alone, of tiles and of tokens, at the speed of the matrix units. Reading takes one thread.',
      ],
    };
  } finally {
    core.close();
    rmSync(folder, { recursive: true });
  }
}

async function readPicture(): Promise<{ readonly reading: number; readonly image: PreparedImage }> {
  const file = await tinyPicture(1, 1600, 1200);
  const processor = new Idefics3Processor({
    longestEdge: 2048,
    tileSize: TILE.image_size,
    isSplit: true,
    patchSize: TILE.patch_size,
    tokensPerTile: TOKENS,
    filter: 'lanczos',
    colours: { factors: [2 / 255, 2 / 255, 2 / 255], offsets: [-1, -1, -1] },
  });
  // The first one loads the decoder.
  await processor.read(file);
  const times: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    const startedAt = performance.now();
    await processor.read(file);
    times.push((performance.now() - startedAt) / 1000);
  }
  return { reading: median(times), image: (await processor.read(file)).image };
}

/** Nothing of a run is there for the next: the image has another hash. */
function secondsToFirstToken(core: EngineCore, image: PreparedImage, run: number): number {
  const positions = Array.from({ length: image.numTokens }, (_, index) => 4 + index);
  const promptTokenIds = [5 + run, 1, 2, 3, ...positions.map(() => PLACEHOLDER), 4];
  const images = [{ image: { ...image, hash: String(run) }, positions }];
  const startedAt = performance.now();
  core.scheduler.add(newRequest({ id: run, promptTokenIds, images, stop: { maxTokens: 1 } }));
  while (core.hasUnfinished) core.step();
  return (performance.now() - startedAt) / 1000;
}

function flopsOfTile(): number {
  const { hidden_size: hidden, intermediate_size: inner, num_hidden_layers: layers } = VISION;
  return PATCHES * 2 * layers * (4 * hidden ** 2 + 2 * hidden * inner);
}

function flopsOfTokens(): number {
  const { hidden_size: hidden, intermediate_size: inner, num_hidden_layers: layers } = TEXT;
  // A third as many heads of keys and values.
  return TOKENS * 2 * layers * ((2 + 2 / 3) * hidden ** 2 + 3 * hidden * inner);
}

function configOf(): object {
  return {
    architectures: ['SmolVLMForConditionalGeneration'],
    image_token_id: PLACEHOLDER,
    scale_factor: SCALE,
    torch_dtype: 'bfloat16',
    vision_config: { ...VISION, ...TILE },
    text_config: {
      ...TEXT,
      model_type: 'llama',
      vocab_size: 49_280,
      num_key_value_heads: 3,
      head_dim: 64,
      max_position_embeddings: 8192,
      rms_norm_eps: 1e-5,
      rope_theta: 100_000,
    },
  };
}
