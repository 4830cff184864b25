// GGUF files in the names of the format's own package (tools/goldens/gguf_models.py) have the logits of the folders that they are made of.

import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import { RankShare } from '../../src/models/rank-share.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { availableBackends, type Backend, openRoundingBackend } from '../helpers/backends.ts';
import { expectClose } from '../ops/native-backends.ts';
import { ModelSession } from './model-session.ts';

const fixture = (path: string) => fileURLToPath(new URL(`../fixtures/${path}`, import.meta.url));

const IDS = Array.from({ length: 24 }, (_, i) => 3 + ((i * 37) % 90));

const configsOf = (golden: string, file = golden) => {
  const read = (path: string) => readModelConfig(openModelSource(fixture(path)));
  return [read(`goldens/${golden}`), read(`gguf/${file}.gguf`)] as const;
};

/** Logits of every token of a prompt that is longer than the models' windows. */
async function logitsOf(path: string, dtype: 'float32' | 'auto', backend: Backend = 'reference') {
  const ops = openRoundingBackend(backend);
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  const model = await loadModel(openModelSource(path), ops, { dtype, maxModelLen: 64, onWarning });
  const logits = new ModelSession(ops, model, 64).run(IDS, IDS.length);
  ops.close();
  return { logits, warnings, format: model.weightFormat };
}

describe('a GGUF file in the names of the format', () => {
  it.each([
    ['GPT-OSS', 'gpt-oss', 'gpt-oss', 'float32'],
    ['GPT-OSS with experts in MXFP4', 'gpt-oss-mxfp4', 'gpt-oss-mxfp4', 'auto'],
    ['DeepSeek V2', 'deepseek-v2', 'deepseek-v2', 'float32'],
    ['DeepSeek V2, keys and values apart', 'deepseek-v2-apart', 'deepseek-v2', 'float32'],
    ['DeepSeek V3, keys and values apart', 'deepseek-v3-apart', 'deepseek-v3', 'float32'],
    ['Gemma 4', 'gemma4', 'gemma4', 'float32'],
    ['Gemma 4 with experts', 'gemma4-moe', 'gemma4-moe', 'float32'],
    ['Gemma 4, small', 'gemma4-small', 'gemma4-small', 'float32'],
    ['GPT-NeoX', 'gpt-neox', 'gpt-neox', 'float32'],
    ['GPT-2', 'gpt2', 'gpt2', 'float32'],
    ['GLM-4 of 2024', 'chatglm', 'glm', 'float32'],
    ['OLMo', 'olmo', 'olmo', 'float32'],
    ['InternLM 2', 'internlm2', 'internlm2', 'float32'],
    ['OLMo 3', 'olmo3', 'olmo3', 'float32'],
    ['OLMoE', 'olmoe', 'olmoe', 'float32'],
    ['EXAONE 4', 'exaone4', 'exaone4', 'float32'],
    ['Seed-OSS', 'seed-oss', 'seed-oss', 'float32'],
    ['ERNIE 4.5', 'ernie4-5', 'ernie4-5', 'float32'],
    ['ERNIE 4.5 with experts', 'ernie4-5-moe', 'ernie4-5-moe', 'float32'],
    ['GLM-4.5', 'glm4-moe', 'glm4-moe', 'float32'],
    ['dots.llm1', 'dots1', 'dots1', 'float32'],
    ['MiniMax-M2', 'minimax-m2', 'minimax-m2', 'float32'],
    ['AFMoE', 'afmoe', 'afmoe', 'float32'],
    ['Qwen3-VL', 'qwen3-vl', 'qwen3-vl', 'float32'],
    ['Qwen3-VL with experts', 'qwen3-vl-moe', 'qwen3-vl-moe', 'float32'],
    ['Granite with experts', 'granite-moe-shared', 'granite-moe-shared', 'float32'],
    ['Granite 4 with Mamba-2', 'granite-hybrid-mamba', 'granite-hybrid-mamba', 'float32'],
    ['Granite 4 without experts', 'granite-hybrid-dense', 'granite4', 'float32'],
    ['AFM', 'arcee', 'arcee', 'float32'],
    ['BitNet', 'bitnet', 'bitnet', 'float32'],
    ['Apertus', 'apertus', 'apertus', 'float32'],
    ['Phi-3.5-MoE', 'phimoe', 'phimoe-usual', 'float32'],
    ['Phi-2', 'phi', 'phi', 'float32'],
    ['Phi-2 of the first releases', 'phi-joined', 'phi', 'float32'],
    ['StableLM', 'stablelm', 'stablelm', 'float32'],
    ['StableLM with blocks side by side', 'stablelm-parallel', 'stablelm-parallel', 'float32'],
    ['Llama 4', 'llama4', 'llama4-text', 'float32'],
    ['Ministral 3', 'mistral3', 'mistral3', 'float32'],
    ['Hunyuan with experts', 'hunyuan-moe', 'hunyuan-moe', 'float32'],
    ['Mistral Small 4', 'mistral4', 'mistral4', 'float32'],
    ['Hunyuan', 'hunyuan', 'hunyuan', 'float32'],
    ['Nemotron', 'nemotron', 'nemotron', 'float32'],
    ['Nemotron-H with experts', 'nemotron-h', 'nemotron-h', 'float32'],
    ['Nemotron-H with a latent', 'nemotron-h-latent', 'nemotron-h-latent', 'float32'],
    ['LFM2', 'lfm2', 'lfm2', 'float32'],
    ['LFM2 with biases', 'lfm2-bias', 'lfm2-bias', 'float32'],
    ['LFM2 with experts', 'lfm2-moe', 'lfm2-moe', 'float32'],
    ['Qwen3-Next', 'qwen3-next', 'qwen3-next', 'float32'],
    ['Qwen3-Next, one projection for linear attention', 'qwen3-next-joined', 'qwen3-next', 'float32'],
    ['Qwen3.5, as many heads of keys as of values', 'qwen3.5-text', 'qwen3.5-text', 'float32'],
  ] as const)('has the logits of the folder: %s', async (_, file, golden, dtype) => {
    const expected = await logitsOf(fixture(`goldens/${golden}`), dtype);
    const got = await logitsOf(fixture(`gguf/${file}.gguf`), dtype);
    expect(got.logits).toEqual(expected.logits);
    expect(got.warnings).toEqual([]);
  });

  it.each(['qwen3.5', 'qwen3.5-moe'])(
    'has those of %s but for rounding: its heads, and so a sum over all of them, are in another order',
    async (name) => {
      const expected = await logitsOf(fixture(`goldens/${name}`), 'float32');
      const got = await logitsOf(fixture(`gguf/${name}.gguf`), 'float32');
      expectClose(got.logits, expected.logits, { absolute: 1e-5 });
      expect(got.warnings).toEqual([]);
    },
  );

  it('has those of Gemma 3n but for rounding: which gates count is told by another number', async () => {
    const expected = await logitsOf(fixture('goldens/gemma3n'), 'float32');
    const got = await logitsOf(fixture('gguf/gemma3n.gguf'), 'float32');
    expectClose(got.logits, expected.logits, { absolute: 1e-5 });
    expect(got.warnings).toEqual([]);
  });

  it('has those of Falcon-H1 but for rounding: its factors are in the weights', async () => {
    const expected = await logitsOf(fixture('goldens/falcon-h1'), 'float32');
    const got = await logitsOf(fixture('gguf/falcon-h1.gguf'), 'float32');
    expectClose(got.logits, expected.logits, { absolute: 1e-5 });
    expect(got.warnings).toEqual([]);
  });

  it.each(
    availableBackends.flatMap((backend) => [
      ['each tensor of linear attention', 'qwen3.5', 'bf16+q4_0+q8_0', backend] as const,
      ['the gates and ups of all experts', 'gemma4-moe', 'bf16+q4_0+q5_0+q8_0', backend] as const,
    ]),
  )('may have a format for %s: %s, %s, on %s', async (_, name, format, backend) => {
    const expected = await logitsOf(fixture(`gguf/${name}-widened.gguf`), 'auto', backend);
    const got = await logitsOf(fixture(`gguf/${name}-blocks.gguf`), 'auto', backend);
    expect(got.logits).toEqual(expected.logits);
    expect(got.format).toBe(format);
  });

  it('of tiled heads cannot be shared by ranks', () => {
    const config = readModelConfig(openModelSource(fixture('gguf/qwen3.5.gguf')));
    const share = new RankShare({ rank: 0, size: 2 });
    expect(() => share.expectPossible(config)).toThrow(
      "--tensor-parallel-size 2 cannot share the heads of linear attention in the order of a GGUF file, but can those of the original's folder: use 1",
    );
  });

  it('says of its model what config.json says', () => {
    const [expected, got] = configsOf('deepseek-v3', 'deepseek-v3-apart');
    expect(got.experts).toEqual(expected.experts);
    expect(got.latent).toEqual(expected.latent);
    expect(got.layerRopes).toEqual(expected.layerRopes);
  });

  it('says of Llama 4 what all releases have in common', () => {
    const [expected, got] = configsOf('llama4-text', 'llama4');
    const { layerWindows, windowsAreChunks, queryGrowth, hasHeadNorms, experts } = expected;
    expect(got).toMatchObject({ layerWindows, windowsAreChunks, queryGrowth, hasHeadNorms, experts });
    expect(got.layerRopes.map((rope) => rope === null)).toEqual([false, false, false, true]);
  });

  it.each(['gemma4', 'gemma4-moe', 'gemma4-small'])('says so of each layer: %s', (name) => {
    const [{ architecture, tensorNames, eosTokenIds, checkpointDType, ...expected }, got] = configsOf(name);
    // A file is of the part that reads text alone.
    expect(got).toMatchObject(expected);
  });
});
