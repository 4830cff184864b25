import { describe, expect, it } from 'vitest';
import { type LLMOptions, toEngineConfig } from '../../src/config/llm-options.ts';
import { ConfigError, NotAvailableError } from '../../src/errors.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';

describe('the options of new LLM()', () => {
  it('start from the same defaults as the command line', () => {
    expect(toEngineConfig({ model: './m' }, {})).toEqual({ ...ENGINE_DEFAULTS, modelPath: './m' });
  });

  it('reach the engine', () => {
    expect(toEngineConfig({ model: 'm', maxModelLen: 128, device: 'reference', seed: 7 }, {})).toMatchObject({
      maxModelLen: 128,
      device: 'reference',
      seed: 7,
    });
  });

  it('take a chat template, but none for an engine without a tokenizer', () => {
    expect(toEngineConfig({ chatTemplate: 'mine.jinja' }, {}).chatTemplate).toBe('mine.jinja');
    expect(() => toEngineConfig({ chatTemplate: 'mine.jinja', skipTokenizerInit: true }, {})).toThrow(
      'chatTemplate and skipTokenizerInit contradict each other',
    );
  });

  it('of other servers are accepted with a line where they have no effect, else refused with the reason', () => {
    const notices: string[] = [];
    const given = { disableCascadeAttn: true, swap_space: 4, enableAutoToolChoice: false, task: undefined };
    const config = toEngineConfig(Object.assign({ model: 'm' }, given), {}, (line) => notices.push(line));
    expect(config).toEqual({ ...ENGINE_DEFAULTS, modelPath: 'm' });
    expect(notices).toEqual([
      expect.stringMatching(/^new LLM\(\): disableCascadeAttn has no effect: ./),
      expect.stringMatching(/^new LLM\(\): swap_space 4 has no effect: ./),
      expect.stringMatching(/^new LLM\(\): enableAutoToolChoice has no effect: ./),
    ]);
    expect(() => toEngineConfig(Object.assign({ model: 'm' }, { toolServer: 'demo' }), {})).toThrow(
      /toolServer demo is not available in svc: clients call the functions themselves; ./,
    );
  });

  it('win over the environment', () => {
    expect(toEngineConfig({}, { SVC_NUM_THREADS: '3' }).numThreads).toBe(3);
    expect(toEngineConfig({ numThreads: 1 }, { SVC_NUM_THREADS: '3' }).numThreads).toBe(1);
  });

  it('leave alone what the environment says to servers', () => {
    const env = { SVC_API_KEY: '', SVC_KV_TRANSFER_SECRET: '', SVC_LOGGING_LEVEL: 'loud' };
    expect(toEngineConfig({}, env)).toEqual({ ...ENGINE_DEFAULTS, modelPath: '' });
  });

  it('take the instruction set from the environment, and name those that there are', () => {
    expect(toEngineConfig({}, { SVC_CPU_ISA: 'avx2' }).cpuIsa).toBe('avx2');
    expect(() => toEngineConfig({}, { SVC_CPU_ISA: 'sse9' })).toThrow(
      'SVC_CPU_ISA: expected one of amx-bf16, avx512-bf16, avx2, portable, got "sse9"',
    );
  });

  it('take processors as a text or as lists', () => {
    const lists = [
      [0, 1, 2],
      [4, 6],
    ];
    expect(toEngineConfig({}, { SVC_CPU_BIND: '0-2|4,6' }).cpuBind).toEqual(lists);
    expect(toEngineConfig({ cpuBind: lists }, {}).cpuBind).toEqual(lists);
    expect(toEngineConfig({ cpuBind: 'auto' }, {}).cpuBind).toBe('auto');
    for (const wrong of ['0-2|', 'all', '3-1', '0;1']) {
      expect(() => toEngineConfig({ cpuBind: wrong }, {})).toThrow(
        /^new LLM\(\): cpuBind: expected auto, nobind, or a list of processors for each rank such as 0-3\|4-7/,
      );
    }
  });

  it('leave defaults alone where they are undefined or null', () => {
    expect(toEngineConfig({ model: undefined, maxModelLen: null }, {})).toEqual({
      ...ENGINE_DEFAULTS,
      modelPath: '',
    });
  });

  it.each([
    ['max_model_len', 'maxModelLen'],
    ['maxModelLength', 'maxModelLen'],
    ['blocksize', 'blockSize'],
  ])('answer the unknown name %s with %s', (typed, meant) => {
    const options = { model: 'm', [typed]: 1 };
    expect(() => toEngineConfig(options, {})).toThrow(ConfigError);
    expect(() => toEngineConfig(options, {})).toThrow(
      `new LLM(): unknown option ${typed}; did you mean ${meant}?`,
    );
  });

  it('know nothing of ports', () => {
    const options = { model: 'm', port: 8000 };
    expect(() => toEngineConfig(options, {})).toThrow(/^new LLM\(\): unknown option port/);
  });

  it('name the option whose value is wrong', () => {
    expect(() => toEngineConfig({ model: 'm', blockSize: 7 }, {})).toThrow(
      'new LLM(): blockSize: expected a multiple of 16 from 16 to 256, got 7',
    );
  });

  it.each<[LLMOptions, string, RegExp]>([
    [{ maxNumSeqs: 0 }, 'maxNumSeqs', /^new LLM\(\): maxNumSeqs: expected a whole number from 1 to 65536/],
    [
      { maxNumSeqs: 2 ** 31 },
      'maxNumSeqs',
      /^new LLM\(\): maxNumSeqs: expected a whole number from 1 to 65536/,
    ],
    [{ speculativeConfig: { method: 'foo' } }, 'speculativeConfig', /^speculativeConfig: method: /],
    [
      { maxNumBatchedTokens: 8, maxNumSeqs: 16 },
      'maxNumBatchedTokens',
      /^maxNumBatchedTokens 8 is less than maxNumSeqs 16: /,
    ],
    [{ tensorParallelSize: 2, device: 'reference' }, 'tensorParallelSize', /use device cpu or cuda, or 1$/],
  ])('are named in errors as a program names them: %j', (options, param, message) => {
    const refusal = expect(() => toEngineConfig(options, {}));
    refusal.toThrow(expect.objectContaining({ param, message: expect.stringMatching(message) }));
    refusal.not.toThrow(/--/);
  });

  it.each([
    ['hfToken', 'hf_SECRET', /^hfToken is not available in svc: .*; set HF_TOKEN$/],
    ['tokenizerMode', 'slow', /^tokenizerMode slow is not available in svc: /],
    ['num_gpu_blocks_override', 512, /; use kvCacheMemoryBytes$/],
  ])('of other servers that are refused are named as they are written: %s', (name, value, message) => {
    expect(() => toEngineConfig({ [name]: value }, {})).toThrow(
      expect.objectContaining({ param: name, message: expect.stringMatching(message) }),
    );
  });

  it('are an object', () => {
    const nothing: unknown = JSON.parse('null');
    expect(() => Reflect.apply(toEngineConfig, null, [nothing, {}])).toThrow(
      "new LLM(): expected an object such as { model: './folder' }, got null",
    );
  });

  it('refuse what is not available yet', () => {
    expect(() => toEngineConfig({ model: 'm', tensorParallelSize: 2, device: 'reference' }, {})).toThrow(
      NotAvailableError,
    );
  });
});
