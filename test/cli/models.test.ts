import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cachedModels, removeModel } from '../../src/hub/cached-models.ts';
import { downloadProgress } from '../../src/hub/download-progress.ts';
import { inspectableModel } from '../../src/hub/inspectable-model.ts';
import { resolveModel } from '../../src/hub/resolve-model.ts';
import { blockFolder, writeGgufModel } from '../fixtures/gguf-model.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { CliProcess, runCli } from '../helpers/cli-process.ts';
import { COMMIT, FakeHub } from '../helpers/fake-hub.ts';
import { needs } from '../helpers/needs.ts';
import { SVC_COMMAND } from '../helpers/svc-command.ts';
import { noTerminal, TerminalProcess } from '../helpers/terminal-process.ts';
import { Random } from '../ops/native-backends.ts';

/** A user whom the system does not know. */
const NOBODY = ['--reuid', '54321', '--clear-groups'];
const needsSetpriv = needs(
  spawnSync('setpriv', [...NOBODY, 'test', '-r', resolve('package.json')]).status === 0,
  'this user may not become another one who can read this folder',
);

const FILES = {
  'config.json': '{}',
  'model.safetensors': Buffer.alloc(2_000_000),
  'pytorch_model.bin': 'old',
};

let hub: FakeHub;
let home: string;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  hub = await FakeHub.start(FILES);
  home = await mkdtemp(join(tmpdir(), 'svc-models-'));
  env = { HF_ENDPOINT: hub.url, HF_HOME: home, MODELSCOPE_CACHE: join(home, 'alternative') };
});
afterAll(async () => {
  await hub.close();
  await rm(home, { recursive: true });
});

describe('svc download and svc models', () => {
  const path = () => join(home, 'hub', 'models--org--tiny');

  it('fetch a model, list it and remove it', async () => {
    const fetched = await runCli(['download', 'org/tiny@refs/pr/1'], env);
    expect(fetched).toMatchObject({ code: 0, stdout: `${join(path(), 'snapshots', COMMIT)}\n` });
    expect(fetched.stderr).toMatch(/1\.9 MiB of 1\.9 MiB.*downloading org\/tiny: 100%/);

    const { stdout: list } = await runCli(['models', 'list'], env);
    const [headings, row] = list.split('\n');
    expect(headings).toMatch(/^MODEL +REVISIONS +SIZE +HUB +PATH$/);
    expect(row?.split(/ {2,}/)).toEqual(['org/tiny', 'refs/pr/1', '1.9 MiB', new URL(hub.url).host, path()]);

    const elsewhere = await runCli(['models', 'list'], { ...env, HF_ENDPOINT: 'hub.example/mirror' });
    expect(elsewhere.stdout.split('\n')[1]?.split(/ {2,}/)).toContain('hub.example/mirror');

    const removed = await runCli(['models', 'rm', 'org/tiny'], env);
    expect(removed).toMatchObject({ code: 0, stdout: `removed ${path()}, 1.9 MiB\n` });
    expect(existsSync(path())).toBe(false);
  });

  it('serve a user without a home folder', needsSetpriv, async () => {
    const folder = join(home, 'of-others');
    await mkdir(folder);
    await chmod(home, 0o755);
    await chmod(folder, 0o777);
    const asNobody = async (...args: readonly string[]) => {
      const homeless = { ...env, HOME: undefined, HF_HOME: undefined, XDG_CACHE_HOME: undefined };
      const command = ['setpriv', ...NOBODY, process.execPath, ...SVC_COMMAND] as const;
      const cli = new CliProcess(args, homeless, command);
      return { code: await cli.exitCode, stdout: cli.stdout, stderr: cli.stderr };
    };
    const missing = await asNobody('download', 'org/tiny');
    expect([missing.code, missing.stderr.trim().split('\n').at(-1)]).toEqual([
      1,
      expect.stringMatching(/^error: \/\.cache\/\S+ cannot be written: .*: give --download-dir a folder/),
    ]);
    const fetched = await asNobody('download', 'org/tiny', '--download-dir', folder);
    expect([fetched.code, fetched.stdout]).toEqual([0, expect.stringContaining(folder)]);
  });

  it('say in one line what is wrong', async () => {
    expect(await runCli(['models', 'rm', 'org/none'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^error: org\/none is not in .*svc models list shows what is.*\n$/),
    });
    await runCli(['download', 'org/tiny'], env);
    expect(await runCli(['models', 'rm', 'org/tiny:Q4_0'], env)).toMatchObject({
      code: 1,
      stderr:
        'error: org/tiny:Q4_0 is a part of org/tiny, of which all files are removed together: svc models rm org/tiny\n',
    });
  });

  it('show a bar on a terminal', needs(noTerminal === null, noTerminal ?? ''), async () => {
    const emptyHome = { ...env, HF_HOME: join(home, 'of the terminal') };
    const command = [...SVC_COMMAND, 'download', 'org/tiny'];
    const terminal = new TerminalProcess(command, { env: emptyHome, columns: 120 });
    await terminal.says(/█+░* \d+% .*downloading org\/tiny/);
    await terminal.says(new RegExp(COMMIT));
    expect(await terminal.exitCode).toBe(0);
  });
});

describe('svc models inspect', () => {
  const BUNDLED = 'models/svc-chat';

  it('tells what a model is, that it runs here, and what it takes at each quantisation', async () => {
    const { code, stdout } = await runCli(['models', 'inspect', BUNDLED]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^architecture +LlamaForCausalLM, 3\.1M parameters, 4 layers of width 256$/m);
    expect(stdout).toMatch(/^context +1,024 tokens of a vocabulary of 3,072$/m);
    expect(stdout).toMatch(/^runs here +yes$/m);
    const rows = stdout.split('\n').filter((line) => /^(none|int8|int4|fp8) /.test(line));
    expect(rows.map((row) => row.split(/ {2,}/)[1])).toEqual(['6.0 MiB', '3.0 MiB', '2.2 MiB', '3.0 MiB']);
  });

  it('tells of a GGUF file in floats what each quantisation takes, of one in blocks what it takes as it is and in int8', async () => {
    const folder = join(home, 'files');
    await mkdir(folder);
    writeTinyModel(folder, { dtype: 'f16' });
    const [plain, quantized] = [join(folder, 'plain.gguf'), join(folder, 'quantized.gguf')];
    writeGgufModel(folder, plain);
    writeTinyModel(folder, { dtype: 'f32' });
    const random = new Random(1);
    const blocks = blockFolder(
      folder,
      () => 'q8_0',
      () => random.next(),
    );
    writeGgufModel(folder, quantized, { blocks });
    const reports = await Promise.all([plain, quantized].map((path) => runCli(['models', 'inspect', path])));
    const seen = reports.map(({ stdout }) => [
      /^weights .* in (\w+), /m.exec(stdout)?.[1],
      / ([\d.]+M) parameters, /.exec(stdout)?.[1],
      stdout.match(/^(none|int8|int4|fp8)(?= )/gm),
    ]);
    expect(seen).toEqual([
      ['f16', '0.1M', ['none', 'int8', 'int4', 'fp8']],
      ['gguf', '0.1M', ['none', 'int8']],
    ]);
  });

  it('tells of experts and windows, where a model has them', async () => {
    const { stdout } = await runCli(['models', 'inspect', 'test/fixtures/goldens/gpt-oss']);
    expect(stdout).toMatch(/^attention +.*, windows of \d+ tokens$/m);
    expect(stdout).toMatch(/^experts +\d+ in a layer, of which \d+ compute a token$/m);
    const llama4 = await runCli(['models', 'inspect', 'test/fixtures/goldens/llama4']);
    expect(llama4.stdout).toMatch(/^attention +.*, of 8, chunks of 10 tokens$/m);
  });

  it('tells of both kinds of heads, where layers without a window have others', async () => {
    const { stdout } = await runCli(['models', 'inspect', 'test/fixtures/goldens/gemma4']);
    expect(stdout).toMatch(
      /^attention +4 heads, 2 of keys and values, of 8, windows of 8 tokens; 1 of 16 in layers without$/m,
    );
    const json = await runCli(['models', 'inspect', 'test/fixtures/goldens/gemma4', '--json']);
    expect(JSON.parse(json.stdout).shape.otherHeads).toEqual({ numKvHeads: 1, headDim: 16 });
  });

  it('tells of a model that sees images', async () => {
    const folder = join(home, 'seeing');
    writeTinyVisionModel(folder);
    expect((await runCli(['models', 'inspect', folder])).stdout).toMatch(/^reads +texts and images$/m);
    const json = await runCli(['models', 'inspect', BUNDLED, '--json']);
    expect(JSON.parse(json.stdout).shape.seesImages).toBe(false);
  });

  it('tells of an embedding model what it makes of a text, and which prompts it has', async () => {
    const folder = join(home, 'embedding');
    await cp('test/fixtures/pooling/bert-dense', folder, { recursive: true });
    const prompts = { query: 'q: ', document: '' };
    const named = JSON.stringify({ prompts, default_prompt_name: 'document' });
    await writeFile(join(folder, 'config_sentence_transformers.json'), named);
    const { stdout } = await runCli(['models', 'inspect', folder]);
    expect(stdout).toMatch(/^makes +vectors of 24 numbers, of the mean of all tokens$/m);
    expect(stdout).toMatch(/^prompts +query, document \(before all texts\)$/m);
    const json = await runCli(['models', 'inspect', folder, '--json']);
    expect(JSON.parse(json.stdout).shape.pooling).toMatchObject({ prompts, size: 24 });
    const file = await runCli(['models', 'inspect', 'test/fixtures/gguf-pooling/xlm-roberta-mean.gguf']);
    expect(file.stdout).toMatch(/^makes +vectors of 32 numbers, of the mean of all tokens$/m);
    const reranker = await runCli(['models', 'inspect', 'test/fixtures/pooling/bert-reranker']);
    expect(reranker.stdout).toMatch(/^makes +scores of how well two texts fit$/m);
  });

  it('finds a folder however its path is written', async () => {
    const path = 'test/fixtures/goldens/gpt-oss';
    const expected = await inspectableModel(path);
    for (const written of [`./${path}`, `${path}/`, `test/../${path}`, resolve(path)]) {
      expect(await inspectableModel(written)).toEqual({ ...expected, path: written });
    }
  });

  it('reads the weights of dense layers, and counts them', async () => {
    const folder = join(home, 'dense');
    await cp('test/fixtures/pooling/bert-dense', folder, { recursive: true });
    const weights = join(folder, '2_Dense/model.safetensors');
    const sizes = [join(folder, 'model.safetensors'), weights].map((path) => statSync(path).size);
    expect((await inspectableModel(folder)).weightBytes).toBe(sizes[0]! + sizes[1]!);
    await writeFile(join(folder, '2_Dense/config.json'), '{"in_features": 32, "out_features": 25}');
    expect((await runCli(['models', 'inspect', folder])).stdout).toMatch(
      /^runs here +no: .*2_Dense.linear.weight must be \[25, 32\] by config\.json, it is \[24, 32\]$/m,
    );
    await rename(weights, join(folder, '2_Dense/pytorch_model.bin'));
    expect(await runCli(['models', 'inspect', folder])).toMatchObject({
      code: 1,
      stderr: `error: ${folder} has no 2_Dense/model.safetensors: the weights of a dense layer are read from it, and from no other format\n`,
    });
  });

  it('finds a shard that is cut off', async () => {
    const folder = join(home, 'cut');
    await mkdir(folder);
    writeTinyModel(folder, { dtype: 'f32' });
    const path = join(folder, 'model.safetensors');
    await truncate(path, statSync(path).size - 1);
    expect((await runCli(['models', 'inspect', folder])).stdout).toMatch(
      /^runs here +no: .*model\.safetensors/m,
    );
  });

  const config = (fields: object) => (folder: string) => {
    const path = join(folder, 'config.json');
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...fields }));
  };
  it.each([
    ['no tokenizer', (folder: string) => rmSync(join(folder, 'tokenizer.json')), 'tokenizer'],
    [
      'half a tokenizer',
      (folder: string) => truncateSync(join(folder, 'tokenizer.json'), 1000),
      'tokenizer.json',
    ],
    ['more layers than it says', config({ num_hidden_layers: 3 }), 'the checkpoint has 4 layers'],
    ['fewer layers than it says', config({ num_hidden_layers: 5 }), 'the checkpoint has 4 layers'],
    ['another vocabulary', config({ vocab_size: 3000 }), 'must be \\[3000, 256\\] by config.json'],
    [
      'settings that are none',
      (folder: string) => writeFileSync(join(folder, 'generation_config.json'), '{"temperature": "hot"}'),
      'generation_config.json: temperature must be a number',
    ],
  ])('finds a model with %s, which svc serve refuses', async (name, damage, reason) => {
    const folder = join(home, name);
    await cp(BUNDLED, folder, { recursive: true });
    damage(folder);
    const { code, stdout } = await runCli(['models', 'inspect', folder]);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^runs here +no: .*${reason}`, 'm'));
  });

  it('finds the format of the weights where config.json does not tell it', async () => {
    const folder = join(home, 'unsaid');
    await mkdir(folder);
    writeTinyModel(folder, { dtype: 'f32', config: { torch_dtype: null, dtype: null } });
    const { stdout } = await runCli(['models', 'inspect', folder]);
    expect(stdout).toMatch(/^weights .* in f32, /m);
    expect(stdout).toMatch(/TOKENS OF CACHE IN F32/);
  });

  it('refuses a file that is no GGUF file in one line', async () => {
    expect(await runCli(['models', 'inspect', 'README.md'])).toMatchObject({
      code: 1,
      stderr: 'error: README.md is a file: expected the folder of a model, or a *.gguf file\n',
    });
  });

  it('downloads no weights of a model that is not here', async () => {
    hub.requests.length = 0;
    await rm(join(home, 'hub'), { recursive: true, force: true });
    const offline = inspectableModel('org/tiny', { env: { ...env, HF_HUB_OFFLINE: '1' } });
    await expect(offline).rejects.toThrow(/HF_HUB_OFFLINE is set/);
    expect(hub.requests).toEqual([]);
    const { weightBytes, isDownloaded } = await inspectableModel('org/tiny', { env });
    expect({ weightBytes, isDownloaded }).toEqual({ weightBytes: 2_000_000, isDownloaded: false });
    expect(hub.requests.filter((request) => request.includes('/resolve/'))).toEqual([
      expect.stringMatching(/config\.json$/),
    ]);
  });

  it('takes the copy of this machine where there is one', async () => {
    const folder = await resolveModel('org/tiny', { env });
    hub.requests.length = 0;
    expect(await inspectableModel('org/tiny', { env })).toEqual({
      path: folder,
      weightBytes: 2_000_000,
      isDownloaded: true,
    });
    expect(hub.requests).toEqual([]);
  });
});

describe('the models of this machine', () => {
  it('are those of both hubs, each with its revisions and its size', async () => {
    const alternative = { ...env, SVC_USE_ALT_MODEL_HUB: 'true', MODELSCOPE_ENDPOINT: hub.url };
    await resolveModel('org/tiny', { env });
    await resolveModel('org/tiny@v1', { env: alternative });
    const models = await cachedModels({}, alternative);
    expect(models.map(({ name, revisions }) => [name, revisions])).toEqual([
      ['org/tiny', ['main']],
      ['org/tiny', ['v1']],
    ]);
    for (const { bytes } of models) expect(bytes).toBeGreaterThan(2_000_000);
    expect(await removeModel('org/tiny', {}, alternative)).toHaveLength(2);
    expect(await cachedModels({}, alternative)).toEqual([]);
  });

  it('are not removed while another process downloads them', async () => {
    await resolveModel('org/tiny', { env });
    const locks = join(home, 'hub', '.locks', 'models--org--tiny');
    await mkdir(locks, { recursive: true });
    await writeFile(join(locks, 'svc.lock'), `${hostname()} ${process.ppid}`);
    await expect(removeModel('org/tiny', {}, env)).rejects.toThrow(/is being downloaded by another process/);
    expect(await cachedModels({}, env)).toHaveLength(1);
  });
});

it('a download tells how much it has, how fast it is and how long it will take', () => {
  const said: [number | null, string][] = [];
  let time = 0;
  const progress = downloadProgress(
    (fraction, what) => said.push([fraction, what]),
    () => time,
  );
  const report = (seconds: number, mebibytes: number) => {
    time = seconds * 1000;
    progress({ done: mebibytes * 2 ** 20, total: 100 * 2 ** 20, what: 'downloading m' });
  };
  report(0, 20);
  report(1, 30);
  // The speed of the last seconds, not of those before.
  for (const seconds of [2, 3, 4, 5, 6]) report(seconds, 30 + seconds);
  report(7, 100);
  progress({ done: 0, total: 0, what: 'using the local copy' });
  expect(said).toEqual([
    [0.2, '20.0 MiB of 100.0 MiB, downloading m'],
    [0.3, '30.0 MiB of 100.0 MiB, 10.0 MiB/s, 7 s left, downloading m'],
    expect.anything(),
    expect.anything(),
    expect.anything(),
    expect.anything(),
    [0.36, '36.0 MiB of 100.0 MiB, 1.0 MiB/s, 64 s left, downloading m'],
    [1, '100.0 MiB of 100.0 MiB, downloading m'],
    [null, 'using the local copy'],
  ]);
});
