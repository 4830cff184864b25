import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import type { DownloadProgress } from '../../src/hub/download.ts';
import { resolveModel } from '../../src/hub/resolve-model.ts';
import { ConnectProxy } from '../helpers/connect-proxy.ts';
import { COMMIT, FakeHub } from '../helpers/fake-hub.ts';
import { SVC_COMMAND } from '../helpers/svc-command.ts';
import { until } from '../helpers/until.ts';

const WEIGHTS = randomBytes(300_000);
const FILES = {
  'config.json': '{"architectures": ["LlamaForCausalLM"]}',
  'tokenizer.json': '{}',
  'model.safetensors': WEIGHTS,
  'consolidated.safetensors': WEIGHTS,
  'pytorch_model.bin': 'old',
  'README.md': 'read me',
};

/** In memory where the machine has such a folder: each downloaded file is synced, which a busy disk takes long for. */
const SCRATCH = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

let hub: FakeHub;
let home: string;
let env: NodeJS.ProcessEnv;
beforeEach(async () => {
  hub = await FakeHub.start(FILES);
  home = await mkdtemp(join(SCRATCH, 'svc-hub-'));
  env = { HF_ENDPOINT: hub.url, HF_HOME: home };
});
afterEach(async () => {
  await hub.close();
  await rm(home, { recursive: true });
});

const fetchTiny = () => resolveModel('org/tiny', { env });
const repository = () => join(home, 'hub', 'models--org--tiny');
const weightsOf = (folder: string) => readFile(join(folder, 'model.safetensors'));
const fileRequests = () => hub.requests.filter((request) => request.includes('/resolve/'));
const weightsRequests = () => hub.requests.filter((request) => request.includes('model.safetensors'));

async function refusal(promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(ModelLoadError);
  return error instanceof Error ? error.message : '';
}

describe('the way to the hub', () => {
  let proxy: ConnectProxy;
  beforeEach(async () => {
    proxy = await ConnectProxy.start();
  });
  afterEach(() => proxy.close());

  it.each(['HTTP_PROXY', 'http_proxy'])('is the web proxy that %s names', async (name) => {
    const folder = await resolveModel('org/tiny', { env: { ...env, [name]: proxy.url } });
    expect((await weightsOf(folder)).equals(WEIGHTS)).toBe(true);
    expect(new Set(proxy.tunnels)).toEqual(new Set([new URL(hub.url).host]));
  });

  it('is no proxy for the hosts of NO_PROXY', async () => {
    await resolveModel('org/tiny', {
      env: { ...env, HTTP_PROXY: proxy.url, NO_PROXY: 'example.org,127.0.0.1' },
    });
    expect(proxy.tunnels).toEqual([]);
    expect(hub.requests.length).toBeGreaterThan(0);
  });

  it('is refused by name where it is no address', async () => {
    const broken = resolveModel('org/tiny', { env: { ...env, HTTPS_PROXY: 'proxy:3128' } });
    expect(await refusal(broken)).toMatch(
      /^HTTPS_PROXY must be the address of a web proxy, .* it is proxy:3128$/,
    );
  });
});

describe('a variable of the environment that cannot be meant', () => {
  it.each([
    ['HF_ENDPOINT', 'notaurl', 'HF_ENDPOINT: expected a URL such as https://huggingface.co, got "notaurl"'],
    ['HF_HUB_DOWNLOAD_TIMEOUT', 'abc', 'HF_HUB_DOWNLOAD_TIMEOUT: expected a number of seconds'],
    ['HF_HUB_OFFLINE', 'maybe', 'HF_HUB_OFFLINE: expected 1 or 0, true or false'],
    ['SVC_USE_ALT_MODEL_HUB', 'xx', 'SVC_USE_ALT_MODEL_HUB: expected 1 or 0, true or false'],
  ])('is refused by its name: %s=%s', async (name, value, message) => {
    const asked = resolveModel('org/tiny', { env: { ...env, [name]: value } });
    await expect(asked).rejects.toThrow(ConfigError);
    await expect(asked).rejects.toThrow(message);
    expect(hub.requests).toEqual([]);
  });

  it('is refused by the name that gave the alternative hub its address', async () => {
    const alternative = { SVC_USE_ALT_MODEL_HUB: '1', MODELSCOPE_DOMAIN: 'a b', MODELSCOPE_CACHE: home };
    await expect(resolveModel('org/tiny', { env: alternative })).rejects.toThrow(
      'MODELSCOPE_DOMAIN: expected a URL such as https://www.modelscope.cn, got "https://a b"',
    );
  });
});

describe('a token that no header can carry', () => {
  it('is refused by the file of the login that has it', async () => {
    const path = join(home, 'token');
    await writeFile(path, 'hf_SECRET ab');
    const asked = fetchTiny();
    await expect(asked).rejects.toThrow(ConfigError);
    await expect(asked).rejects.toThrow(path);
    await expect(asked).rejects.not.toThrow('SECRET');
    expect(hub.requests).toEqual([]);
  });

  it('is none where it is blank', async () => {
    hub.behaviour = { token: 'secret' };
    await writeFile(join(home, 'token'), 'secret\n');
    env.HF_TOKEN = ' \n';
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });

  it('keeps nobody from the copies of this machine', async () => {
    const folder = await fetchTiny();
    const offline = { ...env, HF_TOKEN: 'hf SECRET', HF_HUB_OFFLINE: '1' };
    expect(await resolveModel('org/tiny', { env: offline })).toBe(folder);
  });
});

describe('what to download and where', () => {
  it('is the branch, tag or commit of --revision, which keeps its own name in the cache', async () => {
    const folder = await resolveModel('org/tiny', { env, revision: 'refs/pr/1' });
    expect(folder).toBe(join(repository(), 'snapshots', COMMIT));
    expect(await readdir(join(repository(), 'refs'))).toEqual(['refs']);
    expect(hub.requests[0]).toBe('/api/models/org/tiny/revision/refs%2Fpr%2F1');
  });

  it('is the revision behind the name', async () => {
    expect(await resolveModel('org/tiny@refs/pr/1', { env })).toBe(join(repository(), 'snapshots', COMMIT));
    expect(hub.requests[0]).toBe('/api/models/org/tiny/revision/refs%2Fpr%2F1');
    await expect(resolveModel('org/tiny@main', { env, revision: 'v9' })).rejects.toThrow(
      /org\/tiny@main and --revision v9 contradict each other/,
    );
  });

  it('is no revision of what is on this machine', async () => {
    await expect(resolveModel(home, { env, revision: 'main' })).rejects.toThrow(
      /^--revision main: .* is on this machine, where a model has one revision only: leave the option out/,
    );
  });

  it('are GGUF files where these are asked for, though weights in safetensors are there', async () => {
    await hub.close();
    hub = await FakeHub.start({ ...FILES, 'tiny-q8_0.gguf': 'GGUF' });
    env.HF_ENDPOINT = hub.url;
    const path = await resolveModel('org/tiny', { env, part: 'gguf' });
    expect(path).toMatch(/tiny-q8_0\.gguf$/);
    expect(weightsRequests()).toEqual([]);
    const offline = { ...env, HF_HUB_OFFLINE: '1' };
    expect(await resolveModel('org/tiny', { env: offline, part: 'gguf' })).toBe(path);
  });

  it('names the revision that the hub does not have', async () => {
    expect(await refusal(resolveModel('org/tiny', { env, revision: 'v9' }))).toMatch(
      /has no model org\/tiny with a revision v9/,
    );
  });

  it.each(['../up', 'a/../../b', '/root', '.'])(
    'takes no revision that leads out of the cache: %s',
    async (revision) => {
      expect(await refusal(resolveModel('org/tiny', { env, revision }))).toMatch(
        /^--revision .*: expected the name/,
      );
      expect(hub.requests).toEqual([]);
    },
  );

  it('offline is the snapshot of a commit that another tool left without a name', async () => {
    const folder = await fetchTiny();
    await rm(join(repository(), 'refs'), { recursive: true });
    const offline = { ...env, HF_HUB_OFFLINE: '1' };
    expect(await resolveModel('org/tiny', { env: offline, revision: COMMIT })).toBe(folder);
  });

  it('is kept in --download-dir, where that is given', async () => {
    const downloadDir = join(home, 'elsewhere');
    const folder = await resolveModel('org/tiny', { env, downloadDir });
    expect(folder).toBe(join(downloadDir, 'models--org--tiny', 'snapshots', COMMIT));
    expect(existsSync(join(home, 'hub'))).toBe(false);
  });

  it('has no weights where only the tokenizer is wanted, not even offline', async () => {
    const folder = await resolveModel('org/tiny', { env, part: 'tokenizer' });
    expect(await readdir(folder)).toEqual(['tokenizer.json']);
    const offline = { ...env, HF_HUB_OFFLINE: '1' };
    expect(await resolveModel('org/tiny', { env: offline, part: 'tokenizer' })).toBe(folder);
    expect(await refusal(resolveModel('org/tiny', { env: offline }))).toMatch(/holds no complete copy/);
  });
});

describe('downloading a model', () => {
  it('fetches what is needed, and only that, into the layout of the Python tools', async () => {
    const folder = await fetchTiny();
    expect(folder).toBe(join(repository(), 'snapshots', COMMIT));
    expect((await readdir(folder)).sort()).toEqual(['config.json', 'model.safetensors', 'tokenizer.json']);
    expect(WEIGHTS.equals(await weightsOf(folder))).toBe(true);
    expect(await readlink(join(folder, 'model.safetensors'))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{64}$/);
    expect(await readFile(join(repository(), 'refs', 'main'), 'utf8')).toBe(COMMIT);
    expect(await readdir(join(repository(), 'blobs'))).toHaveLength(3);
  });

  it('writes files of the same content once, and has both', async () => {
    await hub.close();
    const same = Buffer.from(
      JSON.stringify({ architectures: ['LlamaForCausalLM'], padding: 'x'.repeat(1_000_000) }),
    );
    hub = await FakeHub.start({ ...FILES, 'tokenizer.json': same, 'config.json': same });
    env.HF_ENDPOINT = hub.url;
    const folder = await fetchTiny();
    for (const name of ['tokenizer.json', 'config.json']) {
      expect(same.equals(await readFile(join(folder, name)))).toBe(true);
    }
    expect(fileRequests()).toHaveLength(2);
  });

  it('fetches what an index names beside the shards, and not what it does not name', async () => {
    await hub.close();
    const shards = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
    const named = [...shards, 'model_mtp.safetensors'];
    const weight_map = Object.fromEntries(named.map((file, i) => [`tensor.${i}`, file]));
    const index = { 'model.safetensors.index.json': JSON.stringify({ weight_map }) };
    const weights = Object.fromEntries(named.map((file) => [file, randomBytes(1000)]));
    hub = await FakeHub.start({ ...FILES, ...index, ...weights });
    env.HF_ENDPOINT = hub.url;
    const folder = await fetchTiny();
    expect((await readdir(folder)).sort()).toEqual(
      ['config.json', 'tokenizer.json', ...Object.keys(index), ...named].sort(),
    );
    expect(fileRequests()).toHaveLength(6);
    await fetchTiny();
    expect(fileRequests()).toHaveLength(6);
  });

  it('fetches nothing a second time', async () => {
    await fetchTiny();
    const before = fileRequests().length;
    await fetchTiny();
    expect(fileRequests()).toHaveLength(before);
  });

  it('fetches a file again that was cut off in the cache', async () => {
    const path = join(await fetchTiny(), 'model.safetensors');
    await truncate(path, 1000);
    const before = fileRequests().length;
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
    expect(fileRequests().slice(before)).toEqual([`/org/tiny/resolve/${COMMIT}/model.safetensors`]);
    expect(await readlink(path)).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{64}$/);
  });

  it('goes on where a cut connection ended', async () => {
    hub.behaviour = { cutAfter: 100_000, numCuts: 2 };
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
    const ranges = weightsRequests().map((request) => request.split(' ')[1]);
    expect(ranges).toHaveLength(3);
    expect(ranges[1]).toMatch(/^bytes=[1-9]\d*-$/);
  });

  it('goes on with what an earlier process left behind', async () => {
    const { sha } = await plantPart(WEIGHTS.subarray(0, 1000));
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
    expect(weightsRequests()[0]).toMatch(/bytes=1000-$/);
    expect(await readdir(join(repository(), 'blobs'))).toContain(sha);
  });

  it('goes on after a process that was killed, of which nothing stays', async () => {
    hub.behaviour = { stallAfter: 100_000, numStalls: 1 };
    const child = spawn(process.execPath, [...SVC_COMMAND, 'download', 'org/tiny'], {
      env: { ...process.env, ...env },
    });
    const blobs = join(repository(), 'blobs');
    const parts = async () =>
      (await readdir(blobs).catch(() => [])).filter((name) => name.endsWith('.incomplete'));
    // Killed before, it would leave the stall to the next process, which would wait for it.
    await until(async () => hub.behaviour.numStalls === 0 && (await parts()).length > 0);
    child.kill('SIGKILL');
    await once(child, 'exit');
    // What it would have left a moment later.
    const snapshot = join(repository(), 'snapshots', COMMIT);
    await Promise.all([snapshot, join(repository(), 'refs')].map((path) => mkdir(path, { recursive: true })));
    await writeFile(join(snapshot, 'config.json.new'), '');
    await writeFile(join(repository(), 'refs', '.main.new'), 'c0');
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
    const left = await readdir(join(home, 'hub'), { recursive: true });
    expect(left.filter((name) => /\.(new|incomplete|lock)$/.test(name))).toEqual([]);
  });

  it.each([
    [['download'], 'SIGINT'],
    [['serve', '--port', '0', '--host', '127.0.0.1'], 'SIGTERM'],
  ] as const)('of svc %j keeps nobody waiting where %s has ended it', async (command, signal) => {
    hub.behaviour = { stallAfter: 100_000, numStalls: 1 };
    const [name, ...flags] = command;
    const child = spawn(process.execPath, [...SVC_COMMAND, name, 'org/tiny', ...flags], {
      env: { ...process.env, ...env },
    });
    const left = () => readdir(join(home, 'hub'), { recursive: true }).catch(() => []);
    const numLeft = async (end: string) => (await left()).filter((path) => path.endsWith(end)).length;
    await until(async () => hub.behaviour.numStalls === 0 && (await numLeft('.incomplete')) > 0);
    expect(await numLeft('.lock')).toBe(1);
    child.kill(signal);
    await once(child, 'exit');
    expect(await numLeft('.lock')).toBe(0);
  });

  it('starts again where the hub ignores ranges', async () => {
    hub.behaviour = { cutAfter: 100_000, numCuts: 1, ignoresRange: true };
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });

  it('throws a part away that does not belong to the file', async () => {
    await plantPart(Buffer.alloc(1000));
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });

  it('fetches a file again whose bytes came out wrong', async () => {
    hub.behaviour = { numCorrupt: 1 };
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });

  it('tries again when the hub is busy', async () => {
    hub.behaviour = { failWith: 503, numFailures: 2 };
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });

  it('asks again when the hub says, in seconds or as a date', async () => {
    hub.behaviour = { failWith: 429, numFailures: 2, retryAfter: '0' };
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
    await rm(home, { recursive: true });
    hub.behaviour = { failWith: 429, numFailures: 1, retryAfter: new Date(0).toUTCString() };
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });

  it('drops a connection that brings nothing more, and goes on with another', async () => {
    hub.behaviour = { stallAfter: 100_000, numStalls: 1 };
    env.HF_HUB_DOWNLOAD_TIMEOUT = '1.5';
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
    expect(weightsRequests().at(-1)).toMatch(/bytes=[1-9]\d*-$/);
  });

  it('sends the token of a login, wherever that was saved', async () => {
    hub.behaviour = { token: 'secret' };
    await writeFile(join(home, 'elsewhere'), 'secret\n');
    env.HF_TOKEN_PATH = join(home, 'elsewhere');
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });

  it('sends the token of HF_TOKEN', async () => {
    hub.behaviour = { token: 'secret' };
    env.HF_TOKEN = 'secret';
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });

  it('sends a token without the line break behind it, and refuses one that no header can carry, without showing it', async () => {
    hub.behaviour = { token: 'secret' };
    env.HF_TOKEN = 'secret\n';
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
    for (const token of ['sec\nret', 'sécret', 'sec ret']) {
      const error: unknown = await resolveModel('org/tiny', { env: { ...env, HF_TOKEN: token } }).catch(
        (cause) => cause,
      );
      expect(error).toBeInstanceOf(ConfigError);
      expect(String(error)).toMatch(/HF_TOKEN has a character that a header cannot carry/);
      expect(String(error)).not.toContain('ret');
    }
  });

  it('reports progress from nothing to everything', async () => {
    const reports: DownloadProgress[] = [];
    await resolveModel('org/tiny', { env, onProgress: (progress) => reports.push(progress) });
    const last = reports.at(-1);
    expect(last?.done).toBe(last?.total);
    expect(last?.total).toBe(WEIGHTS.length + FILES['config.json'].length + FILES['tokenizer.json'].length);
    expect(reports[0]?.what).toBe('downloading org/tiny');
  });

  it('uses the local copy while the hub cannot be reached', async () => {
    const folder = await fetchTiny();
    await hub.close();
    const said: string[] = [];
    const again = await resolveModel('org/tiny', { env, onProgress: ({ what }) => said.push(what) });
    expect(again).toBe(folder);
    expect(said.join()).toMatch(/cannot be reached: using the local copy/);
    hub = await FakeHub.start(FILES);
  });

  it('asks nobody with HF_HUB_OFFLINE', async () => {
    const folder = await fetchTiny();
    hub.requests.length = 0;
    expect(await resolveModel('org/tiny', { env: { ...env, HF_HUB_OFFLINE: '1' } })).toBe(folder);
    expect(hub.requests).toEqual([]);
  });

  it('gives two calls at once the same whole model', async () => {
    hub.behaviour = { cutAfter: 50_000, numCuts: 3 };
    const [one, other] = await Promise.all([fetchTiny(), fetchTiny()]);
    expect(one).toBe(other);
    expect(WEIGHTS.equals(await weightsOf(one))).toBe(true);
  });

  it('takes a whole copy where nothing can be noted beside it', async () => {
    const folder = await fetchTiny();
    await rm(join(repository(), 'refs'), { recursive: true });
    await writeFile(join(repository(), 'refs'), 'no folder');
    expect(await fetchTiny()).toBe(folder);
  });

  it('takes over the lock of a process that was killed', async () => {
    await plantLock(`${hostname()} 999999999`);
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });

  it('takes over a lock that nobody has kept fresh', async () => {
    const path = await plantLock('another-machine 1');
    await utimes(path, new Date(0), new Date(0));
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
  });
});

describe('the alternative hub', () => {
  const folder = () => join(home, 'models', 'org--tiny', 'snapshots', 'master');
  const fileNames = ['config.json', 'model.safetensors', 'tokenizer.json'] as const;
  beforeEach(() => {
    env = { SVC_USE_ALT_MODEL_HUB: 'True', MODELSCOPE_ENDPOINT: hub.url, MODELSCOPE_CACHE: home };
  });

  it('serves the same files, which are kept as its own tools keep them', async () => {
    expect(await fetchTiny()).toBe(folder());
    expect(WEIGHTS.equals(await weightsOf(folder()))).toBe(true);
    expect((await readdir(folder())).sort()).toEqual(fileNames);
    expect(hub.requests[0]).toBe('/api/v1/models/org/tiny/repo/files?Revision=master&Recursive=true');
  });

  it('has a revision in a folder of its own', async () => {
    await resolveModel('org/tiny@v1.0', { env });
    expect(await readdir(join(home, 'models', 'org--tiny', 'snapshots'))).toEqual(['v1.0']);
  });

  it('has a domain, an address, and one of svc, of which the last wins', async () => {
    const { host } = new URL(hub.url);
    env = { ...env, MODELSCOPE_ENDPOINT: hub.url, MODELSCOPE_DOMAIN: 'nowhere.invalid' };
    expect(await fetchTiny()).toBe(folder());
    env = { ...env, SVC_ALT_MODEL_HUB_ENDPOINT: hub.url, MODELSCOPE_ENDPOINT: 'http://127.0.0.1:9' };
    expect(await fetchTiny()).toBe(folder());
    // Without a scheme it is HTTPS, which this one does not speak.
    env = { ...env, SVC_ALT_MODEL_HUB_ENDPOINT: '', MODELSCOPE_ENDPOINT: '', MODELSCOPE_DOMAIN: host };
    await rm(folder(), { recursive: true });
    expect(await refusal(fetchTiny())).toContain(`https://${host} cannot be reached`);
  });

  it('gets its token in both forms, from the variable or a login of its own tools', async () => {
    hub.behaviour = { token: 'secret' };
    expect(await refusal(fetchTiny())).toMatch(/HTTP 401.*set MODELSCOPE_API_TOKEN/);
    await writeFile(join(home, 'token'), 'secret\n');
    expect(await resolveModel('org/tiny', { env: { ...env, MODELSCOPE_HOME: home } })).toBe(folder());
    expect(await resolveModel('org/tiny', { env: { ...env, MODELSCOPE_API_TOKEN: 'secret' } })).toBe(
      folder(),
    );
    expect(hub.cookies).toContain('m_session_id=secret');
  });

  it('fetches nothing a second time, and only what has changed', async () => {
    await fetchTiny();
    const before = fileRequests().length;
    await fetchTiny();
    expect(fileRequests()).toHaveLength(before);
    await writeFile(join(folder(), 'config.json'), FILES['config.json'].replace('Llama', 'Lxxma'));
    await fetchTiny();
    expect(fileRequests().slice(before)).toEqual(['/models/org/tiny/resolve/master/config.json']);
    expect(await readFile(join(folder(), 'config.json'), 'utf8')).toBe(FILES['config.json']);
  });

  it('takes what its own tools fetched, once it has looked at it', async () => {
    await mkdir(folder(), { recursive: true });
    await writeFile(join(folder(), 'model.safetensors'), WEIGHTS);
    expect(await fetchTiny()).toBe(folder());
    expect(weightsRequests()).toEqual([]);
  });

  it('takes what its own tools fetched into a folder that cannot be written to', async () => {
    await mkdir(folder(), { recursive: true });
    const files = { ...FILES, 'model.safetensors': WEIGHTS };
    for (const name of fileNames) await writeFile(join(folder(), name), files[name]);
    // Where the notes would go.
    await mkdir(join(home, 'models', 'org--tiny', '.svc-master.json', 'taken'), { recursive: true });
    expect(await fetchTiny()).toBe(folder());
    expect(fileRequests()).toEqual([]);
  });

  it.each(['hub/models/org/tiny', 'hub/org/tiny', 'models/org/tiny', 'org/tiny'])(
    'offline is what an older version of its tools left in %s',
    async (older) => {
      await mkdir(join(home, older), { recursive: true });
      for (const name of fileNames) await writeFile(join(home, older, name), '{}');
      expect(await resolveModel('org/tiny', { env: { ...env, HF_HUB_OFFLINE: '1' } })).toBe(
        join(home, older),
      );
    },
  );

  it('goes on where a cut connection ended', async () => {
    hub.behaviour = { cutAfter: 100_000, numCuts: 2 };
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
    expect(weightsRequests().at(-1)).toMatch(/bytes=[1-9]\d*-$/);
  });
});

describe('a model that cannot be had', () => {
  it('is one whose index in the cache is malformed', async () => {
    const index = join(await fetchTiny(), 'model.safetensors.index.json');
    await writeFile(index, '{"weight_map": ');
    const offline = { ...env, HF_HUB_OFFLINE: '1' };
    expect(await refusal(resolveModel('org/tiny', { env: offline }))).toContain(`${index} is not valid JSON`);
  });

  it('has nowhere to go where --download-dir is no folder', async () => {
    const downloadDir = join(home, 'file');
    await writeFile(downloadDir, '');
    expect(await refusal(resolveModel('org/tiny', { env, downloadDir }))).toMatch(
      /file\/models--org--tiny cannot be written: .*: give --download-dir a folder that svc may write to/,
    );
  });

  it('is one whose listing never ends', async () => {
    hub.behaviour = { endlessEntries: 20_000 };
    expect(await refusal(fetchTiny())).toMatch(/lists more than 100000 files of org\/tiny/);
  });

  it('is told apart from a folder that does not exist', async () => {
    expect(await refusal(resolveModel('./models/none', { env }))).toMatch(
      /folder \.\/models\/none does not exist/,
    );
    expect(await refusal(resolveModel('/nowhere/at/all', { env }))).toMatch(/does not exist/);
    expect(await refusal(resolveModel('/nowhere/at/all', { env, part: 'tokenizer' }))).toMatch(
      /^the folder \/nowhere\/at\/all of the tokenizer does not exist: give a folder with tokenizer\.json, /,
    );
    for (const path of ['none.gguf', 'models/none.gguf', './models/a/none.gguf']) {
      expect(await refusal(resolveModel(path, { env }))).toMatch(`the file ${path} does not exist`);
    }
  });

  it('is one that the hub does not know', async () => {
    expect(await refusal(resolveModel('org/none', { env }))).toMatch(
      /has no model org\/none, and there is no local folder of that name: check the spelling/,
    );
  });

  it('is one that needs a token', async () => {
    hub.behaviour = { token: 'secret' };
    expect(await refusal(fetchTiny())).toMatch(/HTTP 401.*gated.*HF_TOKEN/);
  });

  it('is one whose token is not accepted, which is no matter of spelling alone', async () => {
    hub.behaviour = { token: 'secret' };
    env.HF_TOKEN = 'expired';
    expect(await refusal(fetchTiny())).toMatch(
      /HTTP 401.*token is no longer valid.*check the spelling and HF_TOKEN/,
    );
  });

  it('is one whose terms are not accepted', async () => {
    hub.behaviour = { failWith: 403, numFailures: 9 };
    const page = `${hub.url}/org/tiny`;
    expect(await refusal(fetchTiny())).toContain(
      `org/tiny is gated (HTTP 403): accept its terms on ${page}, then set HF_TOKEN`,
    );
    env.HF_TOKEN = 'mine';
    expect(await refusal(fetchTiny())).toContain('then wait until access is granted');
  });

  it('is one on a hub that cannot be reached', async () => {
    env.HF_ENDPOINT = 'http://127.0.0.1:9';
    expect(await refusal(fetchTiny())).toMatch(
      /org\/tiny cannot be downloaded: .* cannot be reached \(.*(ECONNREFUSED|bad port)\), and there is no local folder.*network/,
    );
  });

  it('is one on a hub that fails whenever it is asked', async () => {
    hub.behaviour = { failWith: 503, numFailures: 99, retryAfter: '0' };
    expect(await refusal(fetchTiny())).toMatch(
      /fails \(HTTP 503\), and has been asked several times: try again later/,
    );
    expect(hub.requests).toHaveLength(3);
  });

  it('is one on a hub that wants to be asked much later, which is no time to wait', async () => {
    hub.behaviour = { failWith: 429, numFailures: 1, retryAfter: '3600' };
    expect(await refusal(fetchTiny())).toMatch(
      /wants fewer requests \(HTTP 429\): try again in 3600 s, or set HF_TOKEN/,
    );
    expect(hub.requests).toHaveLength(1);
  });

  it.each(['../../outside.gguf', '/outside.gguf', 'folder/../../../outside.gguf'])(
    'is one with a file that would be written outside of its folder: %s',
    async (path) => {
      for (const kind of [{}, { SVC_USE_ALT_MODEL_HUB: 'true', MODELSCOPE_CACHE: home }]) {
        const hostile = await FakeHub.start({ [path]: 'GGUF' });
        const there = { ...env, HF_ENDPOINT: hostile.url, ...kind, MODELSCOPE_ENDPOINT: hostile.url };
        const reason = await refusal(resolveModel('org/tiny', { env: there })).finally(() => hostile.close());
        expect(reason).toMatch(/ath must be a path inside the folder of the model, got ".*outside\.gguf"/);
      }
    },
  );

  it('is one of which the hub sends more than it lists', async () => {
    hub.behaviour = { numSurplus: 5 };
    expect(await refusal(fetchTiny())).toMatch(/more than the \d+ bytes that it lists/);
  });

  it('is one that comes with a wrong hash twice', async () => {
    hub.behaviour = { numCorrupt: 99 };
    expect(await refusal(fetchTiny())).toMatch(/does not match its hash, twice/);
  });

  it('is one for which the disk has no space', async () => {
    const { part } = await plantPart(Buffer.alloc(0));
    await rm(part);
    await symlink('/dev/full', part);
    expect(await refusal(fetchTiny())).toMatch(/disk is full: free some space/);
  });

  it('is not there in parts only when offline', async () => {
    const folder = await fetchTiny();
    await rm(join(folder, 'model.safetensors'));
    expect(await refusal(resolveModel('org/tiny', { env: { ...env, HF_HUB_OFFLINE: '1' } }))).toMatch(
      /HF_HUB_OFFLINE is set and .* holds no complete copy/,
    );
  });

  it('is one that is not published as safetensors', async () => {
    await hub.close();
    hub = await FakeHub.start({ 'config.json': '{}', 'pytorch_model.bin': 'old' });
    env.HF_ENDPOINT = hub.url;
    expect(await refusal(fetchTiny())).toMatch(/no \*\.safetensors \(only pytorch_model\.bin\)/);
  });
});

async function plantPart(content: Buffer): Promise<{ sha: string; part: string }> {
  const sha = createHash('sha256').update(WEIGHTS).digest('hex');
  const part = join(repository(), 'blobs', `${sha}.incomplete`);
  await mkdir(join(repository(), 'blobs'), { recursive: true });
  await appendFile(part, content);
  return { sha, part };
}

async function plantLock(content: string): Promise<string> {
  const folder = join(home, 'hub', '.locks', 'models--org--tiny');
  const path = join(folder, 'svc.lock');
  await mkdir(folder, { recursive: true });
  await writeFile(path, content);
  return path;
}
