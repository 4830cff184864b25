import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openConfiguredSource } from '../../src/models/source/configured-source.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { kvBlockBytes } from '../../src/runner/kv-budget.ts';
import { loadRunner } from '../../src/runner/load-runner.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { SVC_COMMAND } from '../helpers/svc-command.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { ModelSession } from './model-session.ts';

const newFolder = temporaryFolders();

function tinyModel(options: Parameters<typeof writeTinyModel>[1] = {}): string {
  const folder = newFolder();
  writeTinyModel(folder, options);
  return folder;
}

const sourceOf = (modelPath: string, options: Partial<EngineConfig> = {}) =>
  openConfiguredSource({ ...ENGINE_DEFAULTS, modelPath, ...options });

describe('--hf-overrides', () => {
  it('replaces fields of config.json, and merges objects in it', () => {
    const rope_parameters = { rope_type: 'linear', factor: 2, rope_theta: 5000 };
    const folder = tinyModel({ config: { rope_parameters } });
    const hfOverrides = { max_position_embeddings: 99, rope_parameters: { factor: 4 }, new_field: [1] };
    const text = sourceOf(folder, { hfOverrides }).read('config.json');
    const fields: unknown = JSON.parse(text?.text ?? '');
    expect(fields).toMatchObject({
      max_position_embeddings: 99,
      rope_parameters: { rope_type: 'linear', factor: 4, rope_theta: 5000 },
      new_field: [1],
    });
    expect(readModelConfig(sourceOf(folder, { hfOverrides })).maxPositionEmbeddings).toBe(99);
  });

  it('leaves all other texts as they are', () => {
    const folder = tinyModel();
    const changed = sourceOf(folder, { hfOverrides: { bos_token_id: 7 } });
    expect(changed.read('generation_config.json')).toEqual(sourceOf(folder).read('generation_config.json'));
  });

  it('makes another model of it, which no cache takes for the first', () => {
    const folder = tinyModel();
    const prints = [null, { rope_theta: 1 }, { rope_theta: 2 }, { rope_theta: 2 }].map((hfOverrides) =>
      sourceOf(folder, { hfOverrides }).fingerprint(),
    );
    expect(new Set(prints).size).toBe(3);
    expect(prints[2]).toBe(prints[3]);
  });

  it('is named where a field of it is wrong', () => {
    const source = sourceOf(tinyModel(), { hfOverrides: { hidden_size: -1 } });
    expect(() => readModelConfig(source)).toThrow(/config\.json with --hf-overrides: hidden_size/);
  });
});

/** The config.json of one golden model of each architecture. */
function publishedShapes(): [architecture: string, config: string][] {
  const goldens = fileURLToPath(new URL('../fixtures/goldens', import.meta.url));
  const shapes = new Map<string, string>();
  for (const { name } of readdirSync(goldens, { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  )) {
    const text = readFileSync(join(goldens, name, 'config.json'), 'utf8');
    const config: { architectures: [string]; quantization_config?: object } = JSON.parse(text);
    if (config.quantization_config === undefined) shapes.set(config.architectures[0], text);
  }
  return [...shapes];
}

/** Files of made-up weights that this process has open. */
function openNumbers(): string[] {
  const links = readdirSync('/proc/self/fd').map((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`);
    } catch {
      return '';
    }
  });
  return links.filter((link) => link.includes('svc-dummy-'));
}

describe('--load-format dummy', () => {
  it.each(publishedShapes())(
    'computes with random weights and needs config.json alone: %s',
    async (_, config) => {
      const folder = newFolder();
      mkdirSync(folder);
      writeFileSync(join(folder, 'config.json'), config);
      const ops = new ReferenceOps();
      const model = await loadModel(sourceOf(folder, { loadFormat: 'dummy' }), ops, {
        dtype: 'auto',
        maxModelLen: 64,
        // Some have a large encoder, which another program was not asked for.
        seesImages: false,
      });
      const logits = new ModelSession(ops, model, 16).run([3, 5], 1);
      expect(logits.every(Number.isFinite)).toBe(true);
      expect(new Set(logits).size).toBeGreaterThan(logits.length / 2);
    },
  );

  it('has the same numbers for a tensor in whatever order stages and ranks ask', () => {
    const places = (names: readonly string[]) => {
      const checkpoint = sourceOf(tinyModel(), { loadFormat: 'dummy' }).openCheckpoint();
      onTestFinished(() => checkpoint.close());
      return new Map(names.map((name) => [name, checkpoint.find(name, [4, 4]).byteOffset]));
    };
    const names = ['model.norm.weight', 'model.layers.0.mlp.up_proj.weight', 'lm_head.weight'];
    expect(places(names.toReversed())).toEqual(places(names));
  });

  it('has no file of a name that a killed process could leave behind, and closes its own', async () => {
    const scratch = newFolder();
    mkdirSync(scratch);
    vi.stubEnv('TMPDIR', scratch);
    onTestFinished(() => void vi.unstubAllEnvs());
    const source = sourceOf(tinyModel(), { loadFormat: 'dummy' });
    const load = (onProgress: () => void) =>
      loadModel(source, new ReferenceOps(), { dtype: 'auto', maxModelLen: null, onProgress });
    const during = new Set<number>();
    await load(() => during.add(readdirSync(scratch).length));
    expect([...during]).toEqual([0]);
    expect(openNumbers()).toEqual([]);
    const failing = load(() => {
      throw new Error('enough');
    });
    await expect(failing).rejects.toThrow('enough');
    expect(openNumbers()).toEqual([]);
  });

  it('names the folder that cannot take the numbers, and says what to do', async () => {
    const missing = join(newFolder(), 'missing');
    vi.stubEnv('TMPDIR', missing);
    onTestFinished(() => void vi.unstubAllEnvs());
    const source = sourceOf(tinyModel(), { loadFormat: 'dummy' });
    const loading = loadModel(source, new ReferenceOps(), { dtype: 'auto', maxModelLen: null });
    await expect(loading).rejects.toThrow(ModelLoadError);
    await expect(loading).rejects.toThrow(
      /missing cannot take a file of made-up weights \(ENOENT.*\): free some space, or name .* by TMPDIR/,
    );
  });

  it('says what to do where the numbers have no room', async () => {
    // As a full disk: no file may become larger than 1 MiB at most.
    const limited = ['-c', 'ulimit -f 1024 && exec "$@"', 'sh', process.execPath, ...SVC_COMMAND];
    const large = ['--load-format', 'dummy', '--hf-overrides.vocab_size', '200000'];
    const args = ['serve', tinyModel(), ...large, '--skip-tokenizer-init', '--port', '0'];
    const { stderr, code } = await promisify(execFile)('sh', [...limited, ...args]).catch((error) => error);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^error: .* cannot take \d+ bytes of made-up weights \(EFBIG.*\): free some space, or name a folder .* by TMPDIR$/m,
    );
  });

  it('is no way to make up weights that are published quantised', async () => {
    const quantization_config = { quant_method: 'gptq', bits: 4, group_size: 32, desc_act: false };
    const source = sourceOf(tinyModel({ dtype: 'bf16', config: { quantization_config } }), {
      loadFormat: 'dummy',
    });
    const loading = loadModel(source, new ReferenceOps(), { dtype: 'auto', maxModelLen: null });
    await expect(loading).rejects.toThrow(ConfigError);
    await expect(loading).rejects.toThrow(/--load-format dummy: .* is quantised/);
  });
});

describe('--load-format', () => {
  it('gguf takes the only GGUF file of a folder, and says which there are', () => {
    const folder = newFolder();
    mkdirSync(folder);
    for (const name of ['a-Q8_0.gguf', 'b-Q4_0.gguf']) writeFileSync(join(folder, name), '');
    expect(() => sourceOf(folder, { loadFormat: 'gguf' })).toThrow(
      /more than one GGUF model: give one of .*a-Q8_0\.gguf/,
    );
    expect(() => sourceOf(tinyModel(), { loadFormat: 'gguf' })).toThrow(/holds no \*\.gguf file/);
  });

  it('gguf says of a file that is none what was expected', () => {
    const path = join(tinyModel(), 'config.json');
    expect(() => sourceOf(path, { loadFormat: 'gguf' })).toThrow(ModelLoadError);
    expect(() => sourceOf(path, { loadFormat: 'gguf' })).toThrow(
      /config\.json is a file: expected .* or a \*\.gguf file/,
    );
  });

  it('safetensors takes no GGUF file', () => {
    expect(() => sourceOf('/models/m.gguf', { loadFormat: 'safetensors' })).toThrow(/is a GGUF file/);
  });
});

describe('--max-model-len auto', () => {
  const load = async (options: Partial<EngineConfig>) => {
    const runner = await loadRunner({
      ...ENGINE_DEFAULTS,
      device: 'reference',
      modelPath: tinyModel(),
      ...options,
    });
    const { info } = runner;
    await runner.close();
    return info;
  };

  it('is the limit of the model where the memory has room for it, else what fits', async () => {
    const { maxModelLen: limit } = await load({});
    expect((await load({ maxModelLen: 'auto' })).maxModelLen).toBe(limit);
    const shape = { layers: 2, blocks: 1, blockSize: 16, kvHeads: 2, headDim: 16, dtype: 'f32' } as const;
    const info = await load({ maxModelLen: 'auto', kvCacheMemoryBytes: 3 * kvBlockBytes(shape) });
    expect(info).toMatchObject({ maxModelLen: info.numBlocks * 16 });
    expect(info.maxModelLen).toBeLessThan(limit);
  });

  it('takes memory for the angles of what is served, not of all that the model could read', async () => {
    const before = process.memoryUsage().arrayBuffers;
    const runner = await loadRunner({
      ...ENGINE_DEFAULTS,
      device: 'reference',
      modelPath: tinyModel({ config: { max_position_embeddings: 4_000_000 } }),
      maxModelLen: 'auto',
      kvCacheMemoryBytes: 2 ** 20,
    });
    // For all positions they would be 4,000,000 times 16 numbers.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100e6);
    expect(runner.info.maxModelLen).toBeGreaterThan(1000);
    await runner.close();
  });

  it('is refused where not even one block fits', async () => {
    await expect(load({ maxModelLen: 'auto', kvCacheMemoryBytes: 1 })).rejects.toThrow(/room for 0 tokens/);
  });
});
