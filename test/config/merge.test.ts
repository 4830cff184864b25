import { describe, expect, it } from 'vitest';
import { environmentOptions, mergeOptions, type OptionSource, serveConfig } from '../../src/config/merge.ts';
import { optionName } from '../../src/config/option-table.ts';
import { type OptionKey, SERVE_OPTIONS } from '../../src/config/options.ts';
import { ConfigError, NotAvailableError } from '../../src/errors.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';

type Given = Partial<Record<OptionKey, unknown>>;

function source(given: Given, origin = 'flag'): OptionSource {
  return new Map(
    SERVE_OPTIONS.keys
      .filter((key) => key in given)
      .map((key) => [key, { value: given[key], origin: `${origin} ${optionName(key)}` }]),
  );
}

const configured = (given: Given) => serveConfig(mergeOptions(source(given)));

describe('options', () => {
  it.each([
    ['auto', 'auto'],
    ['bfloat16', 'bf16'],
    ['fp8_e4m3', 'fp8'],
    ['int8', 'int8'],
  ])('take %s as the format of keys and values', (given, expected) => {
    expect(configured({ kvCacheDtype: given }).engine.kvCacheDtype).toBe(expected);
  });

  it('take a name of the model once, however often it is given', () => {
    expect(configured({ servedModelName: ['a', 'b', 'a'] }).answers.servedModelNames).toEqual(['a', 'b']);
  });

  it('refuse another format of keys and values', () => {
    expect(() => configured({ kvCacheDtype: 'fp8_e5m2' })).toThrow(/kv-cache-dtype: .*fp8.*, got "fp8_e5m2"/);
  });

  it('refuse a size of packed weights where none are kept', () => {
    expect(() => configured({ packedCacheSize: '1G' })).toThrow('--packed-cache-size needs --packed-cache');
    const { packedCacheSize } = configured({ packedCache: '/x', packedCacheSize: '1G' }).engine;
    expect(packedCacheSize).toBe(2 ** 30);
  });

  it('refuse several engines with --kv-transfer-config, and say what to do', () => {
    const kvTransferConfig = { kv_connector: 'P2pNcclConnector', kv_role: 'kv_producer' };
    expect(() => configured({ dataParallelSize: 2, kvTransferConfig })).toThrow(
      /--data-parallel-size 2 and --kv-transfer-config exclude each other: .*; start 2 instances behind svc proxy/,
    );
    expect(configured({ dataParallelSize: 2, device: 'cuda' }).engine.dataParallelSize).toBe(2);
  });

  it('give the defaults of the engine where nobody says anything', () => {
    const config = configured({});
    expect(config.engine).toEqual({ ...ENGINE_DEFAULTS, modelPath: '' });
    expect(config.http).toEqual({
      host: null,
      port: 8000,
      logsAccess: true,
      logLevel: 'info',
      rootPath: null,
      hasPage: true,
      tracesEndpoint: null,
      tls: null,
      apiKeys: [],
      cors: { origins: ['*'], methods: ['*'], headers: ['*'], allowsCredentials: false },
      logRequests: false,
      maxLoggedLength: null,
      logStats: true,
      requestTimeoutSeconds: 0,
      streamInterval: 1,
      alwaysTellsUsage: false,
      showsTokenizer: false,
      hidesDocs: false,
    });
    expect(config.answers).toEqual({
      servedModelNames: ['svc-chat'],
      showsCachedTokens: true,
      trustsRequestTemplates: false,
      defaultTemplateVariables: {},
      responseRole: 'assistant',
      areTokensIds: false,
    });
    expect(config.shutdownTimeoutSeconds).toBe(30);
  });

  it('log no statistics with --disable-log-stats', () => {
    expect(configured({ disableLogStats: true }).http.logStats).toBe(false);
  });

  it('win as flag over environment over file over default', () => {
    const file = source({ port: 1, seed: 1, blockSize: 32 }, 'file');
    const environment = source({ port: 2, seed: 2 }, 'environment');
    const { values } = mergeOptions(file, environment, source({ port: 3 }));
    expect([values.port, values.seed, values.blockSize, values.maxNumSeqs]).toEqual([3, 2, 32, 256]);
  });

  it('are found by names with dashes, underscores and aliases', () => {
    expect(SERVE_OPTIONS.find('max-num-seqs')).toBe('maxNumSeqs');
    expect(SERVE_OPTIONS.find('max_num_seqs')).toBe('maxNumSeqs');
    expect(SERVE_OPTIONS.find('disable-log-request')).toBe('disableLogRequests');
    expect(SERVE_OPTIONS.find('max-num-sequences')).toBeNull();
  });

  it.each([
    ['4096', 4096],
    ['1k', 1000],
    ['1K', 1024],
    ['25.6k', 25600],
    ['2m', 2_000_000],
    ['1G', 2 ** 30],
  ])('read the size %s as %d', (text, value) => {
    expect(configured({ maxModelLen: text }).engine.maxModelLen).toBe(value);
  });

  it.each([
    ['float', 'float32'],
    ['BFLOAT16', 'bfloat16'],
    ['auto', 'auto'],
  ])('read the dtype %s as %s', (text, dtype) => {
    expect(configured({ dtype: text }).engine.dtype).toBe(dtype);
  });

  it('take one text or several as a list', () => {
    expect(configured({ apiKey: 'one' }).http.apiKeys).toEqual(['one']);
    expect(configured({ apiKey: 'one\n' }).http.apiKeys).toEqual(['one']);
    expect(configured({ apiKey: ['one', 'two'] }).http.apiKeys).toEqual(['one', 'two']);
  });

  it('let the limit that was left to its default give way to the other', () => {
    expect(configured({ maxNumBatchedTokens: 64 }).engine).toMatchObject({
      maxNumBatchedTokens: 64,
      maxNumSeqs: 64,
    });
    expect(configured({ maxNumSeqs: 4096 }).engine).toMatchObject({
      maxNumBatchedTokens: 4096,
      maxNumSeqs: 4096,
    });
  });

  it('say that trust-remote-code does nothing', () => {
    expect(configured({ trustRemoteCode: true }).notices.join()).toMatch(/--trust-remote-code has no effect/);
    expect(configured({}).notices).toEqual([]);
  });

  it('say that clients need no certificate where authorities are given and none is asked for', () => {
    const files = { sslCertfile: 'c.pem', sslCaCerts: 'ca.pem' };
    expect(configured(files).notices).toEqual([
      expect.stringMatching(/^--ssl-ca-certs has no effect without --ssl-cert-reqs 2: clients may connect/),
    ]);
    expect(configured({ ...files, sslCertReqs: 2 }).notices).toEqual([]);
  });
});

describe('the environment', () => {
  it('sets the options that have a variable, and an empty one sets nothing', () => {
    const found = environmentOptions(SERVE_OPTIONS, {
      SVC_API_KEY: 'secret',
      SVC_NUM_THREADS: '',
      SVC_PORT: '9',
    });
    expect([...found]).toEqual([['apiKey', { value: 'secret', origin: 'SVC_API_KEY' }]]);
  });

  it.each(['SVC_API_KEY', 'SVC_KV_TRANSFER_SECRET'])('has no %s that is empty', (name) => {
    const merged = (...flags: OptionSource[]) =>
      mergeOptions(environmentOptions(SERVE_OPTIONS, { [name]: '' }), ...flags);
    expect(() => merged()).toThrow(ConfigError);
    expect(() => merged()).toThrow(
      `${name} is set and empty, which keeps nobody out: unset it, or give it a value`,
    );
    const given = source({ apiKey: 'key', kvTransferSecret: 'a secret of instances' });
    expect(merged(given).values.apiKey).toEqual(['key']);
  });
});

describe('a wrong value', () => {
  it.each([
    ['port', 'eighty', 'flag port: expected a whole number from 0 to 65535, got "eighty"'],
    ['port', 65536, 'flag port: expected a whole number from 0 to 65535, got 65536'],
    ['port', '', 'flag port: expected a whole number from 0 to 65535, got ""'],
    [
      'maxNumSeqs',
      '0',
      'flag max-num-seqs: expected a whole number from 1 to 65536 (1k is 1000, 1K is 1024; so with m, g), got "0"',
    ],
    [
      'gpuMemoryUtilization',
      90,
      'flag gpu-memory-utilization: expected a number above 0 and up to 1, got 90',
    ],
    [
      'requestTimeout',
      100_000,
      'flag request-timeout: expected a number of seconds from 0 to 86400, got 100000',
    ],
    ['dtype', 'int4', 'flag dtype: expected one of auto, float32, bfloat16, float16, got "int4"'],
    ['skipTokenizerInit', 'maybe', 'flag skip-tokenizer-init: expected true or false, got "maybe"'],
    ['apiKey', [''], /^flag api-key: expected one or more keys of visible characters[^"]*$/],
    ['apiKey', 'schlüssel', /^flag api-key: expected one or more keys of visible characters[^"]*accents$/],
    ['apiKey', ['good', 'a b'], /^flag api-key: expected one or more keys of visible characters[^"]*$/],
    [
      'attentionConfig',
      '{',
      'flag attention-config: expected a JSON object such as {"key": "value"}, got "{"',
    ],
    ['seed', 1.5, 'flag seed: expected a whole number of at least 0, got 1.5'],
  ])('of %s (%j) is refused with what was expected', (key, value, message) => {
    expect(() => configured({ [key]: value })).toThrow(ConfigError);
    expect(() => configured({ [key]: value })).toThrow(message);
  });
});

describe('a contradiction', () => {
  it.each<[Given, RegExp]>([
    [{ maxNumBatchedTokens: 8, maxNumSeqs: 16 }, /raise the first to 16 or lower the second to 8/],
    [{ enableLogRequests: true, disableLogRequests: true }, /contradict each other: give one/],
    [{ attentionBackend: 'CPU_ATTN', attentionConfig: { backend: 'CPU_ATTN' } }, /say the same: give one/],
  ])('%j is refused with the fix', (given, message) => {
    expect(() => configured(given)).toThrow(ConfigError);
    expect(() => configured(given)).toThrow(message);
  });
});

describe('--tensor-parallel-size', () => {
  it.each([3, 0, 16, 'two'])('%j is refused with those that there are', (tensorParallelSize) => {
    expect(() => configured({ tensorParallelSize })).toThrow(
      `flag tensor-parallel-size: expected one of 1, 2, 4, 8, got ${JSON.stringify(tensorParallelSize)}`,
    );
  });
});

describe('what is not available yet', () => {
  it.each<[Given, RegExp]>([
    [
      { tensorParallelSize: 2, device: 'reference' },
      /--tensor-parallel-size 2 with --device reference is not available yet.*: use --device cpu or cuda, or 1/,
    ],
    [{ kvTransferConfig: '{"kv_connector": "NixlConnector"}' }, /NixlConnector is not available yet/],
    [{ device: 'cpu', dtype: 'half' }, /--dtype float16 is computed on an NVIDIA GPU, not on the processor/],
    [
      { device: 'cpu', attentionBackend: 'flash_attn' },
      /flash_attn computes on an NVIDIA GPU: give --device cuda/,
    ],
    [
      { device: 'cuda', attentionBackend: 'TRITON_ATTN' },
      /TRITON_ATTN needs PyTorch.*use FLASH_ATTN, FLASHINFER or auto/,
    ],
    [{ attentionConfig: { flash_attn_version: 3 } }, /flash_attn_version 3 names kernels of a package/],
    [{ attentionConfig: { use_cudnn_prefill: true } }, /use_cudnn_prefill true needs cuDNN/],
    [{ attentionConfig: { use_trtllm_attention: true } }, /use_trtllm_attention true needs TensorRT-LLM/],
    [
      { attentionConfig: { flash_attn_max_num_splits_for_cuda_graph: 16 } },
      /for_cuda_graph 16 cannot be chosen: contexts are split at fixed positions/,
    ],
    [{ device: 'cuda', attentionBackend: 'CPU_ATTN' }, /CPU_ATTN computes on the processor: use FLASH_ATTN/],
    [{ attentionConfig: { backend: 'TRITON_ATTN' } }, /TRITON_ATTN needs PyTorch and its compiler/],
    [{ attentionBackend: 'ROCM_AITER_FA' }, /ROCM_AITER_FA needs an AMD GPU.*no kernels for one/],
    [
      { attentionConfig: { use_prefill_decode_attention: true } },
      /use_prefill_decode_attention true chooses between kernels for AMD GPUs/,
    ],
  ])('%j says so', (given, message) => {
    expect(() => configured(given)).toThrow(NotAvailableError);
    expect(() => configured(given)).toThrow(message);
  });

  it.each<Given>([
    { tensorParallelSize: 1, device: 'cuda' },
    { tensorParallelSize: 8, speculativeConfig: { method: 'draft_model', model: 'small' } },
    { kvTransferConfig: '{}' },
    { attentionBackend: 'auto' },
    { attentionBackend: 'cpu_attn' },
    { attentionBackend: 'flashinfer' },
    { device: 'cuda' },
    { device: 'cuda', dtype: 'float32' },
    { device: 'cuda', enableLora: true },
    { device: 'cuda', quantization: 'int8', kvCacheDtype: 'fp8' },
    { device: 'cuda', attentionBackend: 'flash_attn', kvCacheDtype: 'bf16' },
    { device: 'cuda', attentionBackend: 'flashinfer', attentionConfig: { disable_flashinfer_prefill: true } },
    { attentionConfig: { disable_flashinfer_q_quantization: true, use_cudnn_prefill: null } },
    { attentionConfig: '{"backend": "CPU_ATTN", "use_prefill_decode_attention": false}' },
  ])('%j asks for nothing and is accepted', (given) => {
    expect(() => configured(given)).not.toThrow();
  });

  it('is told apart from what nobody knows', () => {
    expect(() => configured({ attentionBackend: 'MAGIC' })).toThrow(
      /unknown backend MAGIC: expected one of auto, CPU_ATTN/,
    );
    expect(() => configured({ attentionConfig: { bakcend: 'CPU_ATTN' } })).toThrow(
      /unknown key bakcend; did you mean backend\?/,
    );
  });
});
