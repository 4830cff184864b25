// Texts a second of embedding models, in the shapes of all-MiniLM-L6-v2 and bge-base with random weights, held against the
// multiply-adds that this machine has for their products.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { EngineCore } from '../src/engine/engine-core.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import { newRequest } from '../test/helpers/new-request.ts';
import { CPU_ISA, measureMachine } from './machine.ts';
import type { Figure, Section } from './report.ts';

interface Shape {
  readonly name: string;
  readonly hidden: number;
  readonly inner: number;
  readonly layers: number;
  readonly heads: number;
}

const SHAPES: readonly Shape[] = [
  { name: 'MiniLM', hidden: 384, inner: 1536, layers: 6, heads: 12 },
  { name: 'bge-base', hidden: 768, inner: 3072, layers: 12, heads: 12 },
];
const VOCAB = 30_522;
/** Tokens a text: a question, and a paragraph. */
const LENGTHS = [32, 256];
/** Of all texts of a run together. */
const TOKENS = 8192;
const RUNS = 3;

export async function embeddingSection(): Promise<Section> {
  const { matrixFlops } = measureMachine();
  const figures: Figure[] = [];
  for (const shape of SHAPES) figures.push(...(await measure(shape, matrixFlops)));
  const notes = [
    `The best of ${RUNS} runs in bfloat16; the limit is the products of the layers alone at the speed of the matrix units.`,
  ];
  return { title: 'Embeddings', figures, notes };
}

async function measure(shape: Shape, matrixFlops: number): Promise<Figure[]> {
  const { hidden, inner, layers } = shape;
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  writeFileSync(join(folder, 'config.json'), JSON.stringify(configOf(shape)));
  const core = await EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath: folder,
    loadFormat: 'dummy',
    dtype: 'bfloat16',
    cpuIsa: CPU_ISA,
    kvCacheMemoryBytes: 2 ** 28,
  });
  try {
    const flopsOfToken = 2 * layers * (4 * hidden * hidden + 2 * hidden * inner);
    return LENGTHS.map((length) => ({
      name: `${shape.name}, texts of ${length} tokens`,
      value: textsPerSecond(core, length),
      unit: 'texts/s',
      limit: matrixFlops / (flopsOfToken * length),
      goal: null,
    }));
  } finally {
    core.close();
    rmSync(folder, { recursive: true });
  }
}

function textsPerSecond(core: EngineCore, length: number): number {
  const count = TOKENS / length;
  let best = 0;
  for (let run = 0; run < RUNS; run += 1) {
    const startedAt = performance.now();
    for (let id = 0; id < count; id += 1) {
      const promptTokenIds = Array.from({ length }, (_, at) => (7 * at + 13 * id) % VOCAB);
      const request = newRequest({ id: run * count + id, promptTokenIds, stop: { maxTokens: 1 } });
      core.scheduler.add({ ...request, pooling: { secondTextStart: null } });
    }
    while (core.hasUnfinished) core.step();
    best = Math.max(best, (1000 * count) / (performance.now() - startedAt));
  }
  return best;
}

function configOf({ hidden, inner, layers, heads }: Shape): object {
  return {
    architectures: ['BertModel'],
    vocab_size: VOCAB,
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    max_position_embeddings: 512,
    type_vocab_size: 2,
    hidden_act: 'gelu',
    torch_dtype: 'bfloat16',
  };
}
