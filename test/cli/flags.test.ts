import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { addOptions, flagOptions, splitArguments, withModel } from '../../src/cli/flags.ts';
import { mergeOptions } from '../../src/config/merge.ts';
import { SERVE_OPTIONS } from '../../src/config/options.ts';

/** The values that a command line gives, as `svc serve` reads it. */
function read(...argv: string[]) {
  const { args, dotted } = splitArguments(SERVE_OPTIONS, argv);
  const command = new Command('serve')
    .argument('[model]')
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  addOptions(SERVE_OPTIONS, command);
  command.parse([...args], { from: 'user' });
  return mergeOptions(withModel(flagOptions(SERVE_OPTIONS, command.opts(), dotted), command.args[0])).values;
}

describe('flags', () => {
  it('are read with = and with a space, with dashes and with underscores', () => {
    expect(read('m', '--port=1', '--max_num_seqs', '2', '--max-model-len', '1k')).toMatchObject({
      model: 'm',
      port: 1,
      maxNumSeqs: 2,
      maxModelLen: 1000,
    });
  });

  it('collect several values, in one place and in several', () => {
    expect(read('m', '--api-key', 'a', 'b', '--port', '1', '--api-key', 'c').apiKey).toEqual(['a', 'b', 'c']);
    expect(read('m', '--served-model-name=x', '--served_model_name', 'y').servedModelName).toEqual([
      'x',
      'y',
    ]);
  });

  it('may be switched off again', () => {
    expect(read('--skip-tokenizer-init').skipTokenizerInit).toBe(true);
    expect(read('--no-skip-tokenizer-init').skipTokenizerInit).toBe(false);
  });

  it('have other spellings', () => {
    expect(read('-tp', '4').tensorParallelSize).toBe(4);
    expect(read('--disable-log-request').disableLogRequests).toBe(true);
    expect(read('-ac.backend', 'CPU_ATTN').attentionConfig).toEqual({ backend: 'CPU_ATTN' });
  });

  it('keep underscores in values', () => {
    expect(read('my_model', '--served-model-name=a_b')).toMatchObject({
      model: 'my_model',
      servedModelName: ['a_b'],
    });
  });

  it('merge JSON with its dotted parts', () => {
    const values = read(
      '--kv-transfer-config',
      '{"kv_role": "kv_producer", "extra": {"a": 1}}',
      '--kv-transfer-config.kv_rank=1',
      '--kv_transfer_config.extra.send_type',
      'PUT_ASYNC',
      '--kv-transfer-config.peers+',
      'x',
      '--kv-transfer-config.peers+',
      'y',
      '--kv-transfer-config.is_on',
    );
    expect(values.kvTransferConfig).toEqual({
      kv_role: 'kv_producer',
      kv_rank: 1,
      extra: { a: 1, send_type: 'PUT_ASYNC' },
      peers: ['x', 'y'],
      is_on: true,
    });
  });

  it('are refused when a part belongs to a plain value', () => {
    expect(() => read('--kv-transfer-config.a', '1', '--kv-transfer-config.a.b', '2')).toThrow(
      'b cannot be set: what it belongs to is 1, no object',
    );
  });

  it('are refused where the next one stands in the place of their value', () => {
    for (const next of ['--port', '--port=1', '--no-ui', '--max_num_seqs', '-tp']) {
      expect(() => read('--api-key', next, '1')).toThrow(/^--api-key needs a value, and behind it comes --/);
    }
    expect(read('--api-key', '--other', '-1').apiKey).toEqual(['--other', '-1']);
  });

  it.each([
    [['--enable-prefix-caching=false'], 'false'],
    [['--enable_prefix_caching=True'], 'True'],
    [['--no-enable-prefix-caching=1'], '1'],
    [['--enable-prefix-caching', 'False'], 'False'],
    [['m', '--enable-prefix-caching', 'true', '--port', '1'], 'true'],
  ])('without a value are refused with one: %j', (argv, value) => {
    expect(() => read(...argv)).toThrow(
      `--enable-prefix-caching takes no value, got "${value}": ` +
        'write --enable-prefix-caching to turn it on, --no-enable-prefix-caching to turn it off',
    );
  });

  it.each(['Qwen/Qwen3-0.6B', 'Qwen/Qwen3-0.6B@main', './model', '/data/model', 'm.gguf', 'src/cli'])(
    'are refused where one of several values has taken the model %s',
    (model) => {
      for (const flag of ['--api-key', '--served-model-name']) {
        expect(() => read(flag, 'secret', model)).toThrow(
          `${flag} takes all values behind it, and the last one looks like the model: name the model before ${flag}, or by --model`,
        );
        expect(read(model, flag, 'secret', 'other')).toMatchObject({ model });
        expect(read('--model', model, flag, 'secret', model)).toMatchObject({ model });
      }
    },
  );

  it('may have several values where no model is named', () => {
    expect(read('--api-key', 'one', 'two+/='.repeat(6)).apiKey).toHaveLength(2);
    expect(read('--served-model-name', 'org/name').servedModelName).toEqual(['org/name']);
  });

  it('are refused when they contradict themselves', () => {
    expect(() => read('--port', '1', '--port', '2')).toThrow(
      '--port is given twice, as 1 and as 2: give it once',
    );
    expect(() => read('m', '--model', 'n')).toThrow(
      /the model is given twice, as m and as --model n: give it once/,
    );
    expect(read('m', '--model', 'm', '--port', '1', '--port', '1')).toMatchObject({ model: 'm', port: 1 });
  });

  it('are refused when nobody knows them, dotted or not', () => {
    expect(() => read('--port.number', '1')).toThrow(/unknown option '--port\.number'/);
    expect(() => read('--potr', '1')).toThrow(/Did you mean --port\?/);
  });
});
