import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readConfigFile } from '../../src/config/config-file.ts';
import { mergeOptions } from '../../src/config/merge.ts';
import { SERVE_OPTIONS } from '../../src/config/options.ts';
import { ConfigError } from '../../src/errors.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-config-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function read(...lines: string[]) {
  const path = join(folder, 'svc.yaml');
  await writeFile(path, lines.join('\n'));
  return readConfigFile(SERVE_OPTIONS, path);
}

async function refusal(...lines: string[]): Promise<string> {
  const error: unknown = await read(...lines)
    .then((options) => mergeOptions(options))
    .catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(ConfigError);
  return error instanceof Error ? error.message.replace(`${folder}/`, '') : '';
}

describe('a config file', () => {
  it('takes every kind of value in its own way of writing', async () => {
    const options = await read(
      '# comment',
      'model: ./here',
      'port: 9000',
      'max_num_seqs: 1k',
      'api-key: [one, two]',
      'trust-remote-code: true',
      'attention-config:',
      '  backend: CPU_ATTN',
    );
    expect(mergeOptions(options).values).toMatchObject({
      model: './here',
      port: 9000,
      maxNumSeqs: 1000,
      apiKey: ['one', 'two'],
      trustRemoteCode: true,
      attentionConfig: { backend: 'CPU_ATTN' },
    });
  });

  it('takes texts that look like numbers as they are written', async () => {
    const options = await read(
      'api-key: [00123, 1e3]',
      'revision: 1.10',
      'served-model-name: 2.10',
      'port: 9000',
    );
    expect(mergeOptions(options).values).toMatchObject({
      apiKey: ['00123', '1e3'],
      revision: '1.10',
      servedModelName: ['2.10'],
      port: 9000,
    });
  });

  it('takes words as they are written, and lists within lists as numbers', async () => {
    const options = await read(
      'served-model-name: [true, 1e3]',
      'model: no',
      'tokenizer: null',
      'cpu-bind: [[0, 1], [2, 3]]',
      'max-num-seqs: 0x10',
      'ui: False',
    );
    expect(mergeOptions(options).values).toMatchObject({
      servedModelName: ['true', '1e3'],
      model: 'no',
      tokenizer: null,
      cpuBind: [
        [0, 1],
        [2, 3],
      ],
      maxNumSeqs: 16,
      ui: false,
    });
  });

  it.each(['api-key:', 'api-key: null', 'kv-transfer-secret: ~'])(
    'refuses a secret that was never filled in: %s',
    async (line) => {
      expect(await refusal(line)).toMatch(
        /^svc\.yaml:\d:1 \((api-key|kv-transfer-secret)\) has no value, which keeps nobody out: leave it out, or give it one$/,
      );
    },
  );

  it('takes what an alias stands for', async () => {
    const options = await read(
      'api-key: &keys [&first 00123, *first]',
      'allowed-origins: *keys',
      'revision: *first',
      'max-num-seqs: &size 1k',
      'max-num-batched-tokens: *size',
      'hf-overrides: &fields {rope_theta: &theta 5, other: *theta}',
      'default-chat-template-kwargs: *fields',
      'speculative-config.model: *first',
    );
    expect(Object.fromEntries([...options].map(([key, { value }]) => [key, value]))).toEqual({
      apiKey: ['00123', '00123'],
      allowedOrigins: ['00123', '00123'],
      revision: '00123',
      maxNumSeqs: '1k',
      maxNumBatchedTokens: '1k',
      hfOverrides: { rope_theta: 5, other: 5 },
      defaultChatTemplateKwargs: { rope_theta: 5, other: 5 },
      speculativeConfig: { model: 123 },
    });
  });

  it('merges dotted keys into one object', async () => {
    const options = await read('kv-transfer-config.kv_role: kv_both', 'kv-transfer-config.extra.port: 1');
    expect(options.get('kvTransferConfig')?.value).toEqual({ kv_role: 'kv_both', extra: { port: 1 } });
  });

  it('may be empty', async () => {
    expect((await read('# nothing')).size).toBe(0);
  });

  it.each([
    [['port: 1', 'seed: ['], /^svc\.yaml:2:\d+: /],
    [['port: 1', '  seed: 2'], /^svc\.yaml:\d:\d+: /],
    [
      ['port: 1', '', 'max-num-seq: 2'],
      /^svc\.yaml:3:1: unknown option max-num-seq; did you mean max-num-seqs\?$/,
    ],
    [
      ['port: 1', 'seed: often'],
      /^svc\.yaml:2:1 \(seed\): expected a whole number of at least 0, got "often"$/,
    ],
    [['port: 1', 'port: 2'], /^svc\.yaml:2:\d+: /],
    [['max-num-seqs: 1', 'max_num_seqs: 2'], /^svc\.yaml:2:1: max_num_seqs is given twice$/],
    [['port.number: 2'], /^svc\.yaml:1:1: port has no parts/],
    [['config: other.yaml'], /^svc\.yaml:1:1: a config file cannot name another one$/],
    [['port: 1', 'seed: *none'], /^svc\.yaml:2:1: Unresolved alias .*: none$/],
    [['- port'], /^svc\.yaml: expected a mapping of option names to values/],
  ])('%j is refused with line and column', async (lines, message) => {
    expect(await refusal(...lines)).toMatch(message);
  });

  it('that is missing is named', async () => {
    await expect(readConfigFile(SERVE_OPTIONS, join(folder, 'none.yaml'))).rejects.toThrow(
      /--config .*none\.yaml cannot be read: ENOENT/,
    );
  });
});
