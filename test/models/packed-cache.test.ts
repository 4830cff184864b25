// The packed cache as a model is loaded through it: which loads have an entry in common, and what it keeps.

import { execFileSync } from 'node:child_process';
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Quantization } from '../../src/config/engine-config.ts';
import { ModelLoadError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { PackedCache } from '../../src/models/weights/packed-cache.ts';
import { version } from '../../src/util/version.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { openCpu } from '../ops/native-backends.ts';
import { ModelSession } from './model-session.ts';

const newFolder = temporaryFolders();
const TOKENS = [1, 5, 9, 2, 7];
const THREADS_OF_NODE = Number(process.env.UV_THREADPOOL_SIZE ?? 4);

interface LoadOptions {
  readonly quantization?: Quantization | undefined;
  readonly maxBytes?: number;
  readonly seesImages?: boolean;
  /** Another model that is loaded before the entry is written. */
  readonly draft?: string;
}

/** A start with the cache: where its weights came from, what was warned of, and what the model computes. */
async function load(
  model: string,
  folder: string,
  { quantization, maxBytes = 2 ** 30, draft, seesImages = true }: LoadOptions = {},
) {
  const ops = openCpu('portable');
  const warnings: string[] = [];
  try {
    const cache = new PackedCache({ folder, maxBytes }, ops.packedWeights!, (line) => warnings.push(line));
    const loaded = await loadModel(openModelSource(model), ops, {
      dtype: 'bfloat16',
      quantization: quantization ?? null,
      maxModelLen: null,
      packedCache: cache,
      seesImages,
    });
    if (draft !== undefined)
      await loadModel(openModelSource(draft), ops, { dtype: 'bfloat16', maxModelLen: null });
    await cache.keep();
    const logits = new ModelSession(ops, loaded, 64).run(TOKENS, TOKENS.length);
    return { isFromCache: cache.hasAllWeights, warnings, logits };
  } finally {
    ops.close();
  }
}

function newModel(seed = 1, shards = 1): string {
  const folder = newFolder();
  writeTinyModel(folder, { architecture: 'Qwen2ForCausalLM', dtype: 'bf16', seed, shards });
  return folder;
}

function entriesOf(folder: string): string[] {
  return readdirSync(folder).sort();
}

function onlyEntry(folder: string): string {
  const [name = '', ...others] = entriesOf(folder);
  expect(others).toEqual([]);
  return join(folder, name);
}

/** Seconds: of an entry the time of its last use. */
function setTime(path: string, seconds: number): void {
  utimesSync(path, seconds, seconds);
}

describe('packed cache', needsNative, () => {
  it.each([undefined, 'int8', 'int4'] as const)(
    'serves the second load of a model, quantised to %s',
    async (quantization) => {
      const [model, folder] = [newModel(1, 2), newFolder()];
      const first = await load(model, folder, { quantization });
      expect(first).toMatchObject({ isFromCache: false, warnings: [] });
      const second = await load(model, folder, { quantization });
      expect(second).toEqual({ ...first, isFromCache: true });
      onlyEntry(folder);
    },
  );

  it('names the version of svc in an entry, so that no other version takes it for its own', async () => {
    const folder = newFolder();
    await load(newModel(), folder);
    const entry = readFileSync(onlyEntry(folder)).toString('latin1');
    expect(entry).toContain(`\nsvc ${version()}\nlayout `);
  });

  it('keeps the weights of its own model only, whatever is loaded behind it', async () => {
    const [model, alone, beside] = [newModel(1), newFolder(), newFolder()];
    await load(model, alone);
    await load(model, beside, { draft: newModel(2) });
    expect(statSync(onlyEntry(beside)).size).toBe(statSync(onlyEntry(alone)).size);
    expect(await load(model, beside, { draft: newModel(2) })).toMatchObject({
      isFromCache: true,
      warnings: [],
    });
  });

  it('keeps an entry for each model and format', async () => {
    const [model, folder] = [newModel(1), newFolder()];
    const other = newModel(2);
    const plain = await load(model, folder);
    const int8 = await load(model, folder, { quantization: 'int8' });
    expect((await load(other, folder)).isFromCache).toBe(false);
    expect(entriesOf(folder)).toHaveLength(3);
    expect(await load(model, folder)).toEqual({ ...plain, isFromCache: true });
    expect(await load(model, folder, { quantization: 'int8' })).toEqual({ ...int8, isFromCache: true });
  });

  it('keeps an entry for a model that sees images, and one where it only reads', async () => {
    const [model, folder] = [newFolder(), newFolder()];
    writeTinyVisionModel(model, { dtype: 'bf16' });
    const seeing = await load(model, folder);
    const reading = await load(model, folder, { seesImages: false });
    expect(reading).toEqual(seeing);
    expect(entriesOf(folder)).toHaveLength(2);
    expect(await load(model, folder)).toEqual({ ...seeing, isFromCache: true });
    expect(await load(model, folder, { seesImages: false })).toEqual({ ...reading, isFromCache: true });
  });

  it('packs a model again whose file has changed, though its fingerprint, size and time are the same', async () => {
    const [model, folder] = [newFolder(), newFolder()];
    writeTinyModel(model, { dtype: 'bf16', config: { intermediate_size: 1024 } });
    const file = join(model, 'model.safetensors');
    setTime(file, 1000);
    await load(model, folder);
    const source = openModelSource(model);
    const fingerprint = source.fingerprint();
    const { mtimeMs, size } = statSync(file);
    const bytes = readFileSync(file);
    // Half way between two samples of the fingerprint.
    const at = Math.floor(bytes.length / 2);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    writeFileSync(file, bytes);
    setTime(file, 1000);
    expect(statSync(file)).toMatchObject({ mtimeMs, size });
    expect(source.fingerprint()).toBe(fingerprint);
    const changed = await load(model, folder);
    expect(changed.isFromCache).toBe(false);
    expect(changed.logits).toEqual((await load(model, newFolder())).logits);
  });

  it('packs again, says so and writes a whole entry where the entry is cut off or damaged', async () => {
    const [model, folder] = [newModel(), newFolder()];
    const { logits } = await load(model, folder);
    const entry = onlyEntry(folder);
    const whole = readFileSync(entry);
    const damages = [
      () => truncateSync(entry, whole.length - 1),
      () => truncateSync(entry, 0),
      () => writeFileSync(entry, whole.fill(7, whole.length / 2, whole.length / 2 + 1)),
    ];
    for (const damage of damages) {
      damage();
      const mended = await load(model, folder);
      expect(mended.isFromCache).toBe(false);
      expect(mended.warnings).toEqual([expect.stringContaining(`${entry}`)]);
      expect(mended.warnings[0]).toContain('the weights are packed again');
      expect(mended.logits).toEqual(logits);
      expect(await load(model, folder)).toEqual({ isFromCache: true, warnings: [], logits });
    }
  });

  it('does not serve an entry of another model that was put in the place of its own', async () => {
    const [model, other, folder] = [newModel(1), newModel(2), newFolder()];
    const { logits } = await load(model, folder);
    const entry = onlyEntry(folder);
    const foreign = newFolder();
    await load(other, foreign);
    writeFileSync(entry, readFileSync(onlyEntry(foreign)));
    const mended = await load(model, folder);
    expect(mended.warnings).toEqual([expect.stringContaining('another model, format or build of svc')]);
    expect(mended.logits).toEqual(logits);
  });

  it('keeps nothing of a model that cannot be served', async () => {
    const [model, folder] = [newModel(), newFolder()];
    const file = join(model, 'model.safetensors');
    const bytes = readFileSync(file);
    // NaN, as the last number of the last tensor.
    bytes.writeUInt16LE(0x7fff, bytes.length - 2);
    writeFileSync(file, bytes);
    await expect(load(model, folder)).rejects.toThrow(ModelLoadError);
    expect(() => readdirSync(folder)).toThrow('ENOENT');
  });

  it('removes what was not used for the longest time where the folder would grow too large', async () => {
    const [a, b, c, folder] = [newModel(1), newModel(2), newModel(3), newFolder()];
    await load(a, folder);
    const entryOfA = onlyEntry(folder);
    const { size } = statSync(entryOfA);
    await load(b, folder);
    for (const name of entriesOf(folder)) setTime(join(folder, name), 1000);
    expect((await load(a, folder)).isFromCache).toBe(true);
    await load(c, folder, { maxBytes: Math.floor(2.5 * size) });
    expect(entriesOf(folder)).toHaveLength(2);
    expect((await load(a, folder)).isFromCache).toBe(true);
    expect((await load(b, folder)).isFromCache).toBe(false);
  });

  it('does not keep an entry that is larger than the cache may be, and says so once', async () => {
    const [model, folder] = [newModel(), newFolder()];
    const { warnings } = await load(model, folder, { maxBytes: 1000 });
    expect(warnings).toEqual([expect.stringContaining('--packed-cache-size allows 1000')]);
    expect(entriesOf(folder)).toEqual([]);
  });

  it('loads the model all the same where the folder cannot be written to', async () => {
    const file = newFolder();
    writeFileSync(file, '');
    const { warnings, isFromCache } = await load(newModel(), file);
    expect(isFromCache).toBe(false);
    expect(warnings).toEqual([expect.stringContaining('the next start packs the weights again')]);
  });

  it('warns of an entry that no thread gets free to write before the backend is closed, as long as anybody listens', async () => {
    const [folder, warnings] = [newFolder(), [] as string[]];
    const ops = openCpu('portable');
    const cache = new PackedCache({ folder, maxBytes: 2 ** 30 }, ops.packedWeights!, (line) =>
      warnings.push(line),
    );
    await loadModel(openModelSource(newModel()), ops, {
      dtype: 'bfloat16',
      maxModelLen: null,
      packedCache: cache,
    });
    const pipe = newFolder();
    execFileSync('mkfifo', [pipe]);
    // Opened once somebody writes, which takes a thread until then.
    const others = Array.from({ length: THREADS_OF_NODE }, () => open(pipe));
    const kept = cache.keep();
    ops.close();
    await kept;
    closeSync(openSync(pipe, 'w'));
    for (const other of others) await (await other).close();
    expect(warnings).toEqual([
      expect.stringMatching(
        /^packed cache: writing .* was given up 5 seconds after the end; the next start packs the weights again$/,
      ),
    ]);
    expect(entriesOf(folder)).toEqual([]);
  });

  it('removes what processes that died have left, and nothing that is being written', async () => {
    const [model, folder] = [newModel(), newFolder()];
    await load(model, folder);
    const [old, young] = [join(folder, 'old.packed.tmp'), join(folder, 'young.packed.tmp')];
    for (const path of [old, young]) writeFileSync(path, 'half');
    setTime(old, 1000);
    await load(model, folder, { quantization: 'int8' });
    expect(entriesOf(folder).filter((name) => name.endsWith('.tmp'))).toEqual(['young.packed.tmp']);
  });
});
