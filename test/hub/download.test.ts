import { createHash, randomBytes } from 'node:crypto';
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
  utimes,
  writeFile,
} from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import type { DownloadProgress } from '../../src/hub/download.ts';
import { resolveModel } from '../../src/hub/resolve-model.ts';
import { COMMIT, FakeHub } from '../helpers/fake-hub.ts';

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

describe('what to download and where', () => {
  it('is the branch, tag or commit of --revision, which keeps its own name in the cache', async () => {
    const folder = await resolveModel('org/tiny', { env, revision: 'refs/pr/1' });
    expect(folder).toBe(join(repository(), 'snapshots', COMMIT));
    expect(await readdir(join(repository(), 'refs'))).toEqual(['refs']);
    expect(hub.requests[0]).toBe('/api/models/org/tiny/revision/refs%2Fpr%2F1');
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

  it('fetches nothing a second time', async () => {
    await fetchTiny();
    const before = fileRequests().length;
    await fetchTiny();
    expect(fileRequests()).toHaveLength(before);
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

  it('sends the token of HF_TOKEN', async () => {
    hub.behaviour = { token: 'secret' };
    env.HF_TOKEN = 'secret';
    expect(WEIGHTS.equals(await weightsOf(await fetchTiny()))).toBe(true);
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
  it('serves the same files when SVC_USE_ALT_MODEL_HUB says so', async () => {
    env = { SVC_USE_ALT_MODEL_HUB: 'True', SVC_ALT_MODEL_HUB_ENDPOINT: hub.url, XDG_CACHE_HOME: home };
    const folder = await fetchTiny();
    expect(folder.startsWith(join(home, 'svc', 'alternative-hub'))).toBe(true);
    expect(WEIGHTS.equals(await weightsOf(folder))).toBe(true);
    expect(hub.requests[0]).toBe('/api/v1/models/org/tiny/repo/files?Revision=master&Recursive=true');
  });
});

describe('a model that cannot be had', () => {
  it('is one whose index in the cache is malformed', async () => {
    const index = join(await fetchTiny(), 'model.safetensors.index.json');
    await writeFile(index, '{"weight_map": ');
    const offline = { ...env, HF_HUB_OFFLINE: '1' };
    expect(await refusal(resolveModel('org/tiny', { env: offline }))).toContain(`${index} is not valid JSON`);
  });

  it('is told apart from a folder that does not exist', async () => {
    expect(await refusal(resolveModel('./models/none', { env }))).toMatch(
      /folder \.\/models\/none does not exist/,
    );
    expect(await refusal(resolveModel('/nowhere/at/all', { env }))).toMatch(/does not exist/);
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

  it('is one on a hub that cannot be reached', async () => {
    env.HF_ENDPOINT = 'http://127.0.0.1:9';
    expect(await refusal(fetchTiny())).toMatch(
      /no local folder org\/tiny, and it cannot be downloaded from .*(ECONNREFUSED|bad port).*network/,
    );
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
  const path = join(repository(), 'svc.lock');
  await mkdir(repository(), { recursive: true });
  await writeFile(path, content);
  return path;
}
