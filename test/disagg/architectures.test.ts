// Architectures whose blocks are not enough to go on with, or not alike (learned positions, windows, sinks, latents, heads of layers), through prefill
// and decode: what comes out is what the original implementation continues with.

import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { tinyTokenizer, tinyTokenizerConfig } from '../fixtures/tiny-tokenizer.ts';
import { Cluster, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { architectureGoldens, type GoldenModel } from '../models/golden-cases.ts';

const newFolder = temporaryFolders();
const NAMES = [
  'gpt2',
  'falcon-h1',
  'nemotron-h',
  'cohere2',
  'gpt-oss',
  'deepseek-v3',
  'gemma4-small',
  'gemma3n',
];

/** The tokenizer has more tokens than the model, which never samples them. */
function published({ folder }: GoldenModel): string {
  const copy = newFolder();
  cpSync(folder, copy, { recursive: true });
  writeFileSync(join(copy, 'tokenizer.json'), JSON.stringify(tinyTokenizer()));
  writeFileSync(join(copy, 'tokenizer_config.json'), JSON.stringify(tinyTokenizerConfig(128)));
  return copy;
}

const Completion = z.object({ choices: z.array(z.object({ token_ids: z.array(z.number()) })) });

async function continuation(url: string, prompt: readonly number[], max_tokens: number): Promise<number[]> {
  const body = { prompt, max_tokens, temperature: 0, ignore_eos: true, return_token_ids: true };
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return Completion.parse(await response.json()).choices[0]!.token_ids;
}

describe('through one producer and one consumer', needsNative, () => {
  const goldens = architectureGoldens().filter(({ name }) => NAMES.includes(name));
  it.concurrent.each(goldens)('$name goes on as the original does', async (golden) => {
    const cluster = await Cluster.start({
      model: published(golden),
      producers: 1,
      consumers: 1,
      serveArgs: ['--dtype', 'float32', '--max-num-batched-tokens', '7'],
      proxyArgs: ['--prefill-threshold', '0'],
    });
    try {
      for (const { ids, greedyIds } of golden.cases) {
        expect(await continuation(cluster.url, ids, greedyIds.length)).toEqual(greedyIds);
      }
      const metrics = await readMetrics(cluster.consumers[0]!.url);
      expect(metrics.get('svc:kv_transfer_loaded_tokens_total')).toBeGreaterThanOrEqual(32);
      expect(metrics.get('svc:kv_transfer_recomputed_total')).toBe(0);
    } finally {
      await cluster.stop();
    }
  });
});
