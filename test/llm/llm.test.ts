import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  ConfigError,
  EngineDeadError,
  InvalidRequestError,
  LLM,
  ModelLoadError,
  NotAvailableError,
} from '../../src/index.ts';
import { writeGgufModel } from '../fixtures/gguf-model.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { FakeHub } from '../helpers/fake-hub.ts';
import { until } from '../helpers/until.ts';

let folder: string;
let llm: LLM;
beforeAll(async () => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-llm-'));
  await writeTinyModel(folder, { seed: 3 });
  llm = new LLM({ model: folder, maxNumSeqs: 4 });
});
afterAll(async () => {
  await llm.close();
  rmSync(folder, { recursive: true });
});

const GREEDY = { temperature: 0, max_tokens: 8, ignore_eos: true };

describe('LLM.generate', () => {
  it.each([
    ['{"max_token": 5}', 'there is no sampling parameter max_token; did you mean max_tokens?'],
    ['{"constructor": 1}', 'there is no sampling parameter constructor'],
    ['[null]', 'sampling parameters must be an object such as { temperature: 0 }, got null'],
    ['5', 'sampling parameters must be an object such as { temperature: 0 }, got 5'],
  ])('refuses the sampling parameters %s', async (json, message) => {
    await expect(llm.generate('abc', JSON.parse(json))).rejects.toThrow(message);
  });

  it.each([
    ['{"singal": 1}', 'generate() has no option singal; did you mean signal?'],
    ['{"constructor": 1}', 'generate() has no option constructor'],
    ['{"useProgressBar": "yes"}', 'generate(): useProgressBar must be true or false, got "yes"'],
    ['{"signal": {}}', 'generate(): signal must be an AbortSignal, got an object'],
    ['{"temperature": 0}', 'it is a sampling parameter, and they come before the options'],
    ['null', 'the options of generate() must be an object such as { signal }, got null'],
  ])('refuses the options %s', async (json, message) => {
    await expect(llm.generate('abc', null, JSON.parse(json))).rejects.toThrow(message);
  });

  it('tells where an option belongs that stands among the sampling parameters', async () => {
    const { signal } = new AbortController();
    await expect(llm.generate('abc', Object.assign({ signal }))).rejects.toThrow(
      'there is no sampling parameter signal: it is an option, and they come behind the sampling parameters',
    );
  });

  it('gives outputs that JSON holds whole, log-probabilities included', async () => {
    const [output] = await llm.generate('abc', { ...GREEDY, logprobs: 2, prompt_logprobs: 1 });
    const sent = JSON.parse(JSON.stringify(output));
    const sample = output!.outputs[0]!;
    for (const [place, tokenId] of sample.token_ids.entries()) {
      const logprobs = sample.logprobs![place]!;
      expect(sent.outputs[0].logprobs[place]).toEqual(Object.fromEntries(logprobs));
      expect(sent.outputs[0].logprobs[place][tokenId]).toEqual(logprobs.get(tokenId));
    }
    const [, second] = output!.prompt_token_ids;
    expect(sent.prompt_logprobs[0]).toBeNull();
    expect(sent.prompt_logprobs[1][second!]).toEqual(output!.prompt_logprobs![1]!.get(second!));
  });

  it('gives outputs in the order of the prompts, however long each takes', async () => {
    const prompts = Array.from({ length: 20 }, (_, index) => `prompt number ${index}`);
    const params = prompts.map((_, index) => ({ ...GREEDY, max_tokens: 1 + ((index * 7) % 20) }));
    const outputs = await llm.generate(prompts, params);
    expect(outputs.map(({ prompt }) => prompt)).toEqual(prompts);
    expect(outputs.map(({ outputs: [first] }) => first?.token_ids.length)).toEqual(
      params.map((one) => one.max_tokens),
    );
    expect(outputs.every(({ outputs: [first] }) => first?.finish_reason === 'length')).toBe(true);
  });

  it('takes text, token ids and named forms, alone or mixed', async () => {
    const [text] = await llm.generate('abc', GREEDY);
    const ids = text!.prompt_token_ids;
    const [fromIds] = await llm.generate([...ids], GREEDY);
    const mixed = await llm.generate([{ prompt: 'abc' }, { prompt_token_ids: ids }, 'abc', [...ids]], GREEDY);
    expect(fromIds!.prompt).toBeNull();
    for (const output of [fromIds!, ...mixed]) expect(output.outputs).toEqual(text!.outputs);
  });

  it('repeats itself with a seed, and gives n samples that differ', async () => {
    const params = { temperature: 1, max_tokens: 12, seed: 42, n: 3, ignore_eos: true };
    const [first] = await llm.generate('abc', params);
    const [second] = await llm.generate(['abc', 'other', 'prompts'], params);
    expect(first!.outputs.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(second!.outputs).toEqual(first!.outputs);
    expect(new Set(first!.outputs.map(({ token_ids }) => token_ids.join())).size).toBe(3);
  });

  it('repeats itself without a seed where calls come in the same order, and not under another --seed', async () => {
    const texts = async (options: { readonly seed?: number }): Promise<(string | undefined)[]> => {
      const other = new LLM({ model: folder, maxNumSeqs: 2, ...options });
      const prompts = Array.from({ length: 9 }, () => 'abc');
      const outputs = await other.generate(prompts, { max_tokens: 8, ignore_eos: true });
      await other.close();
      return outputs.map(({ outputs: [first] }) => first?.token_ids.join());
    };
    const first = await texts({});
    expect(new Set(first).size).toBe(9);
    expect(await texts({ seed: 0 })).toEqual(first);
    expect(await texts({ seed: 1 })).not.toEqual(first);
  });

  it('ends a text before a stop string and says which', async () => {
    const [whole] = await llm.generate('abc', { ...GREEDY, max_tokens: 24 });
    const text = whole!.outputs[0]!.text;
    const stop = text.slice(4, 6);
    const [cut] = await llm.generate('abc', { ...GREEDY, max_tokens: 24, stop });
    expect(cut!.outputs[0]).toMatchObject({
      text: text.slice(0, text.indexOf(stop)),
      finish_reason: 'stop',
      stop_reason: stop,
    });
  });

  it('gives 16 tokens where no max_tokens is named, and all that fits where it is null', async () => {
    const [some] = await llm.generate('abc', { temperature: 0, ignore_eos: true });
    expect(some!.outputs[0]!.token_ids).toHaveLength(16);
    const longPrompt = Array.from({ length: 200 }, (_, index) => 10 + (index % 90));
    const [all] = await llm.generate([longPrompt], { temperature: 0, ignore_eos: true, max_tokens: null });
    expect(all!.outputs[0]!.finish_reason).toBe('length');
    expect(all!.outputs[0]!.token_ids.length).toBeGreaterThan(16);
  });

  it('returns nothing for no prompts', async () => {
    expect(await llm.generate([])).toEqual([]);
  });

  it.each([
    ['an empty list of ids among prompts', () => llm.generate([[]], GREEDY), InvalidRequestError],
    ['an id outside the vocabulary', () => llm.generate([5, 10_000_000], GREEDY), InvalidRequestError],
    ['a fractional id', () => llm.generate([5, 1.5], GREEDY), InvalidRequestError],
    ['too few sets of parameters', () => llm.generate(['a', 'b'], [GREEDY]), InvalidRequestError],
    ['a wrong parameter', () => llm.generate('a', { temperature: -1 }), InvalidRequestError],
    [
      'a prompt as long as the context',
      () => llm.generate([new Array(5000).fill(5)], GREEDY),
      InvalidRequestError,
    ],
    [
      'a parameter of a later version',
      () => llm.generate('a', Object.assign({ use_beam_search: true })),
      NotAvailableError,
    ],
  ])('refuses %s before anything runs, and goes on to work', async (_, attempt, errorClass) => {
    await expect(attempt()).rejects.toThrow(errorClass);
    expect(await llm.generate('abc', GREEDY)).toHaveLength(1);
  });

  it.each([
    [
      'prompts',
      () => llm.generate(['a', new Array(5000).fill(5)], GREEDY),
      /^prompts\[1\]: the prompt has 5000 /,
    ],
    [
      'prompts',
      () => llm.generate(['a', [10_000_000]], GREEDY),
      /^prompts\[1\]: .*, got 10000000 at index 0$/,
    ],
    [
      'sets',
      () => llm.generate(['a', 'b'], [{}, { n: -1 }]),
      /^samplingParams\[1\]: n must be at least 1, got -1$/,
    ],
  ])('says which of several %s is wrong', async (_, attempt, message) => {
    await expect(attempt()).rejects.toThrow(message);
  });

  it.each([
    [
      '{"prompt": "a", "multi_modal_data": {}}',
      'prompts[0] has multi_modal_data beside prompt, and only prompt and images are read',
    ],
    [
      '[{"prompt_token_ids": [5], "prompt": "a"}]',
      'prompts[0] has prompt_token_ids beside prompt, and only prompt',
    ],
    [
      '{"prompt_token_ids": [5], "multi_modal_data": {}}',
      'prompts[0] has multi_modal_data beside prompt_token_ids, and only prompt_token_ids is read',
    ],
    ['[{"prompts": "a"}]', 'prompts[0] must be a text, a non-empty list of token ids, { prompt } or'],
  ])('refuses the prompts %s', async (json, message) => {
    await expect(llm.generate(JSON.parse(json))).rejects.toThrow(message);
  });

  it('takes a prompt with other fields that are null', async () => {
    const prompts = JSON.parse('[{"prompt": "a", "multi_modal_data": null}]');
    expect(await llm.generate(prompts, { max_tokens: 1 })).toMatchObject([
      { prompt: 'a', outputs: [{ cumulative_logprob: null, logprobs: null }] },
    ]);
  });

  it('writes no progress bar where stderr is no terminal', async () => {
    expect(process.stderr.isTTY ?? false).toBe(false);
    await llm.generate('abc', GREEDY, { useProgressBar: true });
  });
});

describe('LLM.chat', () => {
  it('renders each conversation with the chat template and answers it', async () => {
    const conversation = [{ role: 'user', content: 'Hello' }];
    const [one] = await llm.chat(conversation, GREEDY);
    const many = await llm.chat([conversation, conversation], GREEDY);
    expect(one!.prompt).toContain('Hello');
    expect(many.map(({ outputs }) => outputs)).toEqual([one!.outputs, one!.outputs]);
  });

  it('reads content in parts as the server does, each in a line of its own', async () => {
    const parts = ['Hello', 'there'].map((text) => ({ type: 'text' as const, text }));
    const [inParts] = await llm.chat([{ role: 'user', content: parts }], GREEDY);
    const [whole] = await llm.chat([{ role: 'user', content: 'Hello\nthere' }], GREEDY);
    expect(inParts!.prompt).toBe(whole!.prompt);
  });

  it.each([
    ['[{"role": "user", "content": 5}]', 'messages[0].content must be a string or an array, got 5'],
    ['[[{"role": "user"}]]', 'messages[0][0].content must be a string or an array of parts of type "text"'],
    [
      '[{"role": "user", "content": [{"type": "image_url"}]}]',
      'messages[0].content[0] is of type "image_url"',
    ],
    ['[[{"role": "user", "content": "a"}], []]', 'messages[1] must have at least 1 element'],
    ['"Hello"', 'messages must be an array, got "Hello"'],
  ])('refuses the messages %s', async (json, message) => {
    const refused = llm.chat(JSON.parse(json), GREEDY);
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toBeInstanceOf(InvalidRequestError);
  });

  it('says which of several conversations is wrong', async () => {
    const [short, long] = ['a', 'a '.repeat(5000)].map((content) => [{ role: 'user', content }]);
    await expect(llm.chat([short!, long!], GREEDY)).rejects.toThrow(/^messages\[1\]: the prompt has /);
  });

  it('refuses template variables that would replace the conversation', async () => {
    const chatTemplateKwargs = { messages: [{ role: 'user', content: 'b' }] };
    await expect(llm.chat([{ role: 'user', content: 'a' }], GREEDY, { chatTemplateKwargs })).rejects.toThrow(
      'chatTemplateKwargs must not hold messages',
    );
  });

  it('refuses an option that it does not have', async () => {
    const options = Object.assign({ chatTemplateKwarg: {} });
    await expect(llm.chat([{ role: 'user', content: 'a' }], GREEDY, options)).rejects.toThrow(
      'chat() has no option chatTemplateKwarg; did you mean chatTemplateKwargs?',
    );
  });
});

describe('a new LLM', () => {
  it('takes a GGUF file in the place of a folder, and answers alike', async () => {
    const path = join(folder, 'model.gguf');
    writeGgufModel(folder, path);
    const other = new LLM({ model: path, maxNumSeqs: 4 });
    const [expected, got] = await Promise.all(
      [llm, other].map(async (model) => (await model.generate('The cat', GREEDY))[0]!.outputs[0]!),
    );
    await other.close();
    expect(got).toEqual(expected);
  });

  it('refuses an unknown option at once and suggests the right one', () => {
    expect(() => new LLM(Object.assign({ model: folder, maxNumSeq: 3 }))).toThrow(ConfigError);
    expect(() => new LLM(Object.assign({ model: folder, maxNumSeq: 3 }))).toThrow(/maxNumSeqs/);
  });

  it('tells at the first call what is wrong with the folder', async () => {
    const broken = new LLM({ model: os.tmpdir() });
    await expect(broken.generate('a')).rejects.toThrow(ModelLoadError);
    await broken.close();
  });

  it('names the option that does not fit the model as a program does', async () => {
    const long = new LLM({ model: folder, maxModelLen: 1_000_000 });
    const refusal = expect(long.generate('a')).rejects;
    await refusal.toMatchObject({ name: 'ConfigError', param: 'maxModelLen' });
    await refusal.toThrow(/^maxModelLen 1000000 is longer than the model's own limit/);
    await long.close();
  });

  it('says by which option a model would give embeddings', async () => {
    for (const refusal of [llm.embed('a'), llm.score('a', 'b')]) {
      await expect(refusal).rejects.toThrow(/generates text: .* started with runner pooling, or/);
    }
  });

  it('waits for no download when it is closed', async () => {
    const hub = await FakeHub.start({ 'config.json': '{}', 'model.safetensors': Buffer.alloc(2_000_000) });
    hub.behaviour = { stallAfter: 100_000, numStalls: 1 };
    const home = mkdtempSync(join(os.tmpdir(), 'svc-llm-hub-'));
    vi.stubEnv('HF_ENDPOINT', hub.url);
    vi.stubEnv('HF_HOME', home);
    const downloading = new LLM({ model: 'org/tiny' });
    const refused = expect(downloading.generate('a')).rejects.toThrow('the engine has been closed');
    await until(() => hub.behaviour.numStalls === 0);
    const startedAt = performance.now();
    await downloading.close();
    await refused;
    // A connection that brings nothing more is dropped after 30 s.
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    expect(readdirSync(home, { recursive: true }).filter((name) => String(name).endsWith('.lock'))).toEqual(
      [],
    );
    vi.unstubAllEnvs();
    await hub.close();
    rmSync(home, { recursive: true });
  });

  it('waits for no weights when it is closed', async () => {
    const loading = new LLM({ model: folder });
    const refused = expect(loading.generate('a')).rejects.toBeInstanceOf(EngineDeadError);
    await loading.close();
    await refused;
  });

  it('rejects what is in flight when it is closed', async () => {
    const other = new LLM({ model: folder });
    const stream = other.stream('abc', { ...GREEDY, max_tokens: null });
    await stream.next();
    const batch = expect(other.generate('abc', { ...GREEDY, max_tokens: null })).rejects.toThrow(/closed/);
    await other.close();
    await batch;
    const readOn = async () => {
      for await (const _ of stream);
    };
    await expect(readOn()).rejects.toThrow(/closed/);
  });
});

it('a program that forgets close() ends when its work is done', () => {
  const source = `
    import { LLM } from './src/index.ts';
    const llm = new LLM({ model: ${JSON.stringify(folder)} });
    const [output] = await llm.generate('abc', { max_tokens: 3, ignore_eos: true });
    console.log(output.outputs[0].token_ids.length);`;
  const program = spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', source], {
    timeout: 50_000,
    encoding: 'utf8',
  });
  expect([program.status, program.stdout, program.stderr]).toEqual([0, '3\n', '']);
});
