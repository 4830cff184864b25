// Mixtures of experts as they are published: MXFP4, and folders that do not fit their config.json.

import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { writeFloat8Experts } from '../fixtures/float8-experts.ts';
import { fuseExperts } from '../fixtures/fuse-experts.ts';
import { publishedTensors } from '../fixtures/published-tensors.ts';
import { writeSafetensors } from '../fixtures/safetensors-writer.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends, openBackend, openRoundingBackend } from '../helpers/backends.ts';
import { cosine } from '../helpers/compare.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { goldenFolder, goldenInCodes } from './golden-cases.ts';
import { ModelSession } from './model-session.ts';

const newFolder = temporaryFolders();

describe.each(availableBackends)('on the %s backend', (backend) => {
  const ops = openBackend(backend);
  afterAll(() => ops.close());

  it('experts in MXFP4 give the logits of their numbers, the same bits in chunks of 7', async () => {
    const { folder, cases } = goldenInCodes('mxfp4');
    const model = await loadModel(openModelSource(folder), ops, { dtype: 'auto', maxModelLen: null });
    expect(model.weightFormat).toBe('bf16+mxfp4');
    for (const { ids, rows, logits } of cases) {
      const golden = new ModelSession(ops, model, ids.length).run(ids, rows);
      expect(cosine(golden, logits)).toBeGreaterThan(0.999);
      const whole = new ModelSession(ops, model, ids.length).run(ids, ids.length);
      const chunked = new ModelSession(ops, model, ids.length);
      const parts: number[] = [];
      for (let start = 0; start < ids.length; start += 7) {
        const chunk = ids.slice(start, start + 7);
        parts.push(...chunked.run(chunk, chunk.length));
      }
      expect(Float32Array.from(parts)).toEqual(whole);
    }
  });

  it('experts in MXFP4 become int8, as the rest of the model does, near the logits of their numbers', async () => {
    const { folder, cases } = goldenInCodes('mxfp4');
    const options = { dtype: 'auto', maxModelLen: null, quantization: 'int8' } as const;
    const model = await loadModel(openModelSource(folder), ops, options);
    expect(model.weightFormat).toBe('int8');
    for (const { ids, rows, logits } of cases) {
      expect(cosine(new ModelSession(ops, model, ids.length).run(ids, rows), logits)).toBeGreaterThan(0.99);
    }
  });

  it.each([1, 2] as const)(
    'experts in one tensor of 8-bit floats, scales %i, have the bits of their numbers',
    async (parts) => {
      const rounding = openRoundingBackend(backend);
      const folders = { quantized: newFolder(), plain: newFolder() };
      writeFloat8Experts(goldenFolder('mistral4'), folders, parts);
      const warnings: string[] = [];
      const options = {
        dtype: 'auto',
        maxModelLen: null,
        onWarning: (text: string) => void warnings.push(text),
      } as const;
      const ids = Array.from({ length: 20 }, (_, i) => 3 + ((i * 7) % 40));
      const [expected, got] = await Promise.all(
        [folders.plain, folders.quantized].map((folder) =>
          loadModel(openModelSource(folder), rounding, options),
        ),
      );
      expect(got!.weightFormat).toBe('bf16+fp8');
      expect(new ModelSession(rounding, got!, 20).run(ids, 20)).toEqual(
        new ModelSession(rounding, expected!, 20).run(ids, 20),
      );
      expect(warnings).toEqual([]);
      const int8 = await loadModel(openModelSource(folders.quantized), rounding, {
        ...options,
        quantization: 'int8',
      });
      expect(int8.weightFormat).toBe('int8');
      const near = new ModelSession(rounding, int8, 20).run(ids, 20);
      expect(cosine(near, new ModelSession(rounding, expected!, 20).run(ids, 20))).toBeGreaterThan(0.99);
      rounding.close();
    },
  );

  it.each([
    ['int8', 'int8'],
    ['int4', 'int4-g32'],
    ['fp8', 'fp8'],
  ] as const)('experts in one tensor of floats are brought to %s', async (quantization, format) => {
    const folder = newFolder();
    writeTinyModel(folder, { architecture: 'GptOssForCausalLM', config: { intermediate_size: 96 } });
    const options = { dtype: 'bfloat16', maxModelLen: null } as const;
    const source = openModelSource(folder);
    const plain = await loadModel(source, ops, options);
    const quantized = await loadModel(source, ops, { ...options, quantization });
    expect([plain.weightFormat, quantized.weightFormat]).toEqual(['bf16', format]);
    const ids = Array.from({ length: 20 }, (_, i) => (i * 7) % 250);
    const [expected, got] = [plain, quantized].map((model) => new ModelSession(ops, model, 20).run(ids, 20));
    expect(cosine(got!, expected!)).toBeGreaterThan(0.95);
    expect(got).not.toEqual(expected);
  });
});

describe('a mixture of experts', () => {
  const ops = openBackend('reference');
  const load = (folder: string) =>
    loadModel(openModelSource(folder), ops, { dtype: 'auto', maxModelLen: null });

  /** A tiny model whose checkpoint has the tensors that `change` makes of its own. */
  function published(
    architecture: string,
    change: (tensors: ReturnType<typeof publishedTensors>) => ReturnType<typeof publishedTensors>,
  ): string {
    const folder = newFolder();
    writeTinyModel(folder, { architecture });
    const tensors = change(publishedTensors(readModelConfig(openModelSource(folder))));
    writeSafetensors(join(folder, 'model.safetensors'), tensors, 'f32', ({ shape }) => [
      new Uint8Array(4 * shape.reduce((product, size) => product * size, 1)),
    ]);
    return folder;
  }

  it.each(['mixtral', 'minimax-m2', 'qwen2-moe', 'qwen3-moe', 'deepseek-v2', 'deepseek-v3', 'afmoe'])(
    'gives the same bits where all experts of a layer are one tensor: %s',
    async (golden) => {
      const path = fileURLToPath(new URL(`../fixtures/goldens/${golden}`, import.meta.url));
      const folder = newFolder();
      cpSync(path, folder, { recursive: true });
      fuseExperts(folder);
      const ids = Array.from({ length: 20 }, (_, i) => 3 + ((i * 7) % 40));
      const [expected, got] = await Promise.all(
        [path, folder].map(async (one) => new ModelSession(ops, await load(one), 20).run(ids, 20)),
      );
      expect(got).toEqual(expected);
    },
  );

  it('is refused where experts in one tensor do not fit config.json', async () => {
    const folder = newFolder();
    cpSync(fileURLToPath(new URL('../fixtures/goldens/mixtral', import.meta.url)), folder, {
      recursive: true,
    });
    fuseExperts(folder);
    const path = join(folder, 'config.json');
    const config = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify({ ...config, num_local_experts: config.num_local_experts + 1 }));
    await expect(load(folder)).rejects.toThrow(/mlp\.experts\.gate_up_proj must be \[6, .* it is \[5, /);
  });

  it('is refused where the checkpoint lacks an expert, which is named', async () => {
    const name = 'model.layers.1.mlp.experts.3.up_proj.weight';
    const folder = published('Qwen3MoeForCausalLM', (tensors) => tensors.filter((one) => one.name !== name));
    await expect(load(folder)).rejects.toThrow(
      /tensor model\.layers\.1\.mlp\.experts\.3\.up_proj\.weight .* is missing/,
    );
  });

  it('is refused where the checkpoint has more experts than config.json', async () => {
    const more = { name: 'model.layers.0.block_sparse_moe.experts.4.w1.weight', shape: [112, 64] };
    const folder = published('MixtralForCausalLM', (tensors) => [...tensors, more]);
    await expect(load(folder)).rejects.toThrow(
      /experts\.4\.w1\.weight is in the checkpoint, .* does not use it/,
    );
  });

  it('is refused where experts in one tensor have another shape', async () => {
    const folder = published('GptOssForCausalLM', (tensors) =>
      tensors.map(({ name, shape }) => ({
        name,
        shape: name.endsWith('down_proj') ? shape.toReversed() : shape,
      })),
    );
    await expect(load(folder)).rejects.toThrow(
      /experts\.down_proj must be \[4, 112, 64\] by config\.json, it is \[64, 112, 4\]/,
    );
  });

  it.each([
    [
      'MixtralForCausalLM',
      { num_experts_per_tok: 5 },
      /num_experts_per_tok must be at most the number of experts, 4, it is 5/,
    ],
    ['Qwen3MoeForCausalLM', { num_local_experts: undefined }, /num_experts must be the number of experts/],
    [
      'DeepseekV3ForCausalLM',
      { n_group: 3 },
      /n_group 3 and topk_group 1 must leave 2 of 4 experts to choose from/,
    ],
    ['GptOssForCausalLM', { swiglu_limit: 5 }, /swiglu_limit must be 7/],
  ])('of %s is refused with %j', (architecture, config, message) => {
    expect(() => writeTinyModel(newFolder(), { architecture, config })).toThrow(message);
  });

  it('in MXFP4 whose inputs fill no groups is refused', async () => {
    const folder = newFolder();
    cpSync(goldenInCodes('mxfp4').folder, folder, { recursive: true });
    const path = join(folder, 'config.json');
    const fields: unknown = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify({ ...Object(fields), intermediate_size: 40 }));
    await expect(load(folder)).rejects.toThrow(ModelLoadError);
  });

  const configs = sharedFixture('configs');
  it('of published configs is understood', needsShared(configs), () => {
    const read = (name: string) => readModelConfig(new FolderFiles(join(configs!, name)));
    const gptOss = read('gpt-oss-20b');
    expect(gptOss.experts).toMatchObject({ count: 32, intermediateSize: 2880, routing: { topK: 4 } });
    expect(gptOss.layerWindows.slice(0, 4)).toEqual([128, null, 128, null]);
    expect(gptOss.quantization?.method).toBe('mxfp4');
    expect(read('WizardLM-2-8x22B-mixtral').experts).toMatchObject({ count: 8, routing: { topK: 2 } });
  });
});
