// Checkpoints that are published in codes with scales, by each method: they compute what the checkpoint of the same numbers
// in floats computes.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import { type LoadOptions, loadModel } from '../../src/models/load-model.ts';
import type { Model } from '../../src/models/model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import type { Damage, StoredTensor } from '../fixtures/compressed-model.ts';
import { fuseProjections } from '../fixtures/fuse-projections.ts';
import {
  AWQ,
  floatQuantized,
  gptqScheme,
  MODELOPT_FP8,
  MODELOPT_NVFP4,
  MXFP4,
  NVFP4,
  packQuantized,
  publishedFp8,
  publishQuantized,
  type Scheme,
  W8A16,
} from '../fixtures/quantized-model.ts';
import { writeSafetensors } from '../fixtures/safetensors-writer.ts';
import { readStoredTensors, writeStoredTensors } from '../fixtures/stored-tensors.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { TINY_VOCAB_SIZE } from '../fixtures/tiny-tokenizer.ts';
import { availableBackends, openBackend, openRoundingBackend } from '../helpers/backends.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { Random } from '../ops/native-backends.ts';
import { ModelSession } from './model-session.ts';
import { SharedModel } from './shared-model.ts';

const newFolder = temporaryFolders();
const PROMPT = Array.from({ length: 20 }, (_, i) => (i * 37) % TINY_VOCAB_SIZE);
/** Large enough for groups and blocks of 128. */
const SIZES = { hidden_size: 128, intermediate_size: 256, head_dim: 32, num_hidden_layers: 1 };

function publish(
  scheme: Scheme,
  options: {
    config?: object;
    damage?: Damage;
    architecture?: string;
    sizes?: object;
    isFused?: boolean;
  } = {},
): { quantized: string; plain: string } {
  const [quantized, plain] = [newFolder(), newFolder()];
  const { architecture = 'LlamaForCausalLM', sizes, isFused = false } = options;
  writeTinyModel(quantized, { architecture, config: { ...SIZES, ...sizes } });
  if (isFused) fuseProjections(quantized);
  publishQuantized(quantized, plain, scheme, options);
  return { quantized, plain };
}

/** Puts the tensors of a name like `names` of one folder into the place of those of another. */
function takeTensors(from: string, into: string, names: RegExp): void {
  const path = join(into, 'model.safetensors');
  writeStoredTensors(path, [
    ...readStoredTensors(path).filter(({ name }) => !names.test(name)),
    ...readStoredTensors(join(from, 'model.safetensors')).filter(({ name }) => names.test(name)),
  ]);
}

/** A random GPT-2, whose matrices are [inputs, outputs]. */
function writeGpt2(folder: string): void {
  mkdirSync(folder);
  const [width, inner] = [128, 512];
  const sizes = { n_embd: width, n_inner: inner, n_layer: 1, n_head: 4, n_positions: 64 };
  const config = { architectures: ['GPT2LMHeadModel'], vocab_size: TINY_VOCAB_SIZE, ...sizes };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  const linear = (name: string, k: number, n: number) => [
    { name: `h.0.${name}.weight`, shape: [k, n] },
    { name: `h.0.${name}.bias`, shape: [n] },
  ];
  const norm = (name: string) =>
    ['weight', 'bias'].map((kind) => ({ name: `${name}.${kind}`, shape: [width] }));
  const tensors = [
    { name: 'wte.weight', shape: [TINY_VOCAB_SIZE, width] },
    { name: 'wpe.weight', shape: [64, width] },
    ...['h.0.ln_1', 'h.0.ln_2', 'ln_f'].flatMap(norm),
    ...linear('attn.c_attn', width, 3 * width),
    ...linear('attn.c_proj', width, width),
    ...linear('mlp.c_fc', width, inner),
    ...linear('mlp.c_proj', inner, width),
  ];
  const random = new Random(3);
  writeSafetensors(join(folder, 'model.safetensors'), tensors, 'f32', ({ shape }) => {
    const count = shape.reduce((product, length) => product * length, 1);
    return [new Uint8Array(Float32Array.from({ length: count }, () => random.next() - 0.5).buffer)];
  });
}

type Options = Partial<Parameters<typeof loadModel>[2]>;

function load(folder: string, ops: Ops, options: Options = {}): Promise<Model> {
  return loadModel(openModelSource(folder), ops, { dtype: 'auto', maxModelLen: null, ...options });
}

/** Logits of the last token, of the prompt at once and of its last token alone. */
function logitsOf(ops: Ops, model: Model): Float32Array[] {
  const session = new ModelSession(ops, model, PROMPT.length + 1);
  return [session.run(PROMPT, 1), session.run([3], 1)];
}

const SCHEMES: readonly [string, Scheme, string][] = [
  [
    'compressed-tensors W4A16, symmetric groups of 32',
    packQuantized({ bits: 4, groupSize: 32, isSymmetric: true }),
    'int4-g32',
  ],
  [
    'compressed-tensors W4A16, groups of 64 with zero points',
    packQuantized({ bits: 4, groupSize: 64, isSymmetric: false }),
    'int4-g64-zp',
  ],
  [
    'compressed-tensors W4A16, a scale a channel',
    packQuantized({ bits: 4, groupSize: null, isSymmetric: true }),
    'int4',
  ],
  [
    'compressed-tensors W8A16 in words, a scale a channel',
    packQuantized({ bits: 8, groupSize: null, isSymmetric: true }),
    'w8a16',
  ],
  [
    'compressed-tensors W8A16 in words, groups of 128 with zero points',
    packQuantized({ bits: 8, groupSize: 128, isSymmetric: false }),
    'w8a16-g128-zp',
  ],
  ['compressed-tensors W8A16 in bytes', W8A16, 'w8a16-g64-zp'],
  ['compressed-tensors FP8, a scale a tensor', floatQuantized('tensor'), 'fp8'],
  ['compressed-tensors FP8, a scale a channel', floatQuantized('channel'), 'fp8'],
  ['compressed-tensors FP8, a scale a block', floatQuantized('block'), 'fp8-g128'],
  ['compressed-tensors MXFP4', MXFP4, 'mxfp4'],
  ['compressed-tensors NVFP4', NVFP4, 'nvfp4'],
  ['GPTQ in 4 bits', gptqScheme({}), 'int4-g32-zp'],
  ['GPTQ in 8 bits, groups of 128', gptqScheme({ bits: 8, groupSize: 128 }), 'w8a16-g128-zp'],
  ['GPTQ, one group', gptqScheme({ groupSize: null }), 'int4-zp'],
  ['GPTQ of the second version', gptqScheme({ isV2: true }), 'int4-g32-zp'],
  ['AWQ', AWQ, 'int4-g64-zp'],
  ['FP8 in blocks', publishedFp8(true), 'fp8-g128'],
  ['FP8, a scale a tensor', publishedFp8(false), 'fp8'],
  ['FP8 of ModelOpt', MODELOPT_FP8, 'fp8'],
  ['NVFP4 of ModelOpt', MODELOPT_NVFP4, 'nvfp4'],
  ['FP8, a scale a tensor in its newer name', publishedFp8(false, 'weight_scale_inv'), 'fp8'],
];

it.each(SCHEMES)(
  'a published checkpoint in %s has the bits of one over two ranks',
  needsNative,
  async (_, scheme) => {
    for (const [isFused, quantization] of [
      [false, null],
      [true, null],
      [true, 'int8'],
    ] as const) {
      const { quantized } = publish(scheme, { isFused });
      const models = [1, 2].map((size) => SharedModel.load(quantized, size, { dtype: 'auto', quantization }));
      const [expected, actual] = (await Promise.all(models)).map((model) => {
        const session = model.session(PROMPT.length + 1);
        const logits = [session.run(PROMPT, 1), session.run([3], 1)];
        model.close();
        return logits;
      });
      expect(actual).toEqual(expected);
    }
  },
);

const PERMUTED: readonly [string, Scheme][] = [
  ['GPTQ with act-order', gptqScheme({ isPermuted: true, groupSize: 64 })],
  [
    'compressed-tensors with act-order',
    packQuantized({ bits: 4, groupSize: 32, isSymmetric: true, isPermuted: true }),
  ],
];

const ct = packQuantized({ bits: 4, groupSize: 32, isSymmetric: true });

describe.each(availableBackends)('a published checkpoint on %s', (backend) => {
  it.each(SCHEMES)('in %s has the bits of its numbers in bfloat16', async (_, scheme, format) => {
    const ops = openRoundingBackend(backend);
    const { quantized, plain } = publish(scheme);
    const [actual, expected] = [await load(quantized, ops), await load(plain, ops)];
    expect([actual.weightFormat, actual.dtype]).toEqual([format, 'bf16']);
    if (backend !== 'reference') expect(actual.weightBytes).toBeLessThan(expected.weightBytes);
    expect(logitsOf(ops, actual)).toEqual(logitsOf(ops, expected));
    ops.close();
  });

  it.each(SCHEMES)('in %s of projections in one tensor has the bits of its numbers', async (_, scheme) => {
    const ops = openRoundingBackend(backend);
    const { quantized, plain } = publish(scheme, { isFused: true });
    const [actual, expected] = [await load(quantized, ops), await load(plain, ops)];
    expect(logitsOf(ops, actual)).toEqual(logitsOf(ops, expected));
    ops.close();
  });

  it.each<[string, Scheme]>([
    ...SCHEMES.map(([name, scheme]) => [name, scheme] as [string, Scheme]),
    ...PERMUTED,
  ])('in %s becomes int8 as its numbers do', async (_, scheme) => {
    const ops = openBackend(backend);
    const { quantized, plain } = publish(scheme);
    const numbers: number[] = [];
    const onOpen: LoadOptions['onOpen'] = (_, published) => numbers.push(published.numbers);
    const [actual, expected] = [
      await load(quantized, ops, { quantization: 'int8', onOpen }),
      await load(plain, ops, { quantization: 'int8', onOpen }),
    ];
    // Scales and zeros are among them, and words may hold half as many codes.
    expect(numbers[0]! / numbers[1]!).toBeGreaterThanOrEqual(1);
    expect(numbers[0]! / numbers[1]!).toBeLessThan(scheme.bits === 8 ? 2.1 : 1.2);
    expect([actual.weightFormat, actual.weightBytes]).toEqual(['int8', expected.weightBytes]);
    expect(logitsOf(ops, actual)).toEqual(logitsOf(ops, expected));
    ops.close();
  });

  it('has the bits of its numbers where projections in one tensor share scales', async () => {
    const ops = openRoundingBackend(backend);
    const { quantized, plain } = publish(publishedFp8(true), {
      isFused: true,
      sizes: { intermediate_size: 192 },
    });
    const [actual, expected] = [await load(quantized, ops), await load(plain, ops)];
    expect(logitsOf(ops, actual)).toEqual(logitsOf(ops, expected));
    ops.close();
  });

  it.each<[string, Scheme]>([
    ['GPTQ', gptqScheme({})],
    ['GPTQ with groups of 64', gptqScheme({ groupSize: 64 })],
    ['AWQ', AWQ],
  ])('of GPT-2 in %s has the bits of its numbers in bfloat16', async (_, scheme) => {
    const ops = openRoundingBackend(backend);
    const [quantized, plain] = [newFolder(), newFolder()];
    writeGpt2(quantized);
    publishQuantized(quantized, plain, scheme, { isTurned: true });
    const [actual, expected] = [await load(quantized, ops), await load(plain, ops)];
    expect(actual.weightFormat).toMatch(/^int4-g/);
    expect(logitsOf(ops, actual)).toEqual(logitsOf(ops, expected));
    ops.close();
  });

  it('of GPT-2 in codes that are published output by output is refused', async () => {
    const ops = openBackend(backend);
    const [quantized, plain] = [newFolder(), newFolder()];
    writeGpt2(quantized);
    publishQuantized(quantized, plain, ct, { isTurned: true });
    await expect(load(quantized, ops)).rejects.toThrow(
      /c_attn\.weight_packed is quantised, and holds its projection transposed/,
    );
    ops.close();
  });

  it('of DeepSeek V3 in FP8 has the bits of its numbers in bfloat16, experts and latents too', async () => {
    const ops = openRoundingBackend(backend);
    const { quantized, plain } = publish(publishedFp8(true), { architecture: 'DeepseekV3ForCausalLM' });
    const [actual, expected] = [await load(quantized, ops), await load(plain, ops)];
    expect(actual.weightFormat).toBe('fp8-g128');
    expect(logitsOf(ops, actual)).toEqual(logitsOf(ops, expected));
    ops.close();
  });

  it.each<[string, Scheme, string?]>([...SCHEMES, ...PERMUTED])(
    'in %s is near to its numbers in bfloat16, where sums have another order or numbers are not rounded',
    async (_, scheme) => {
      const ops = openBackend(backend);
      const { quantized, plain } = publish(scheme);
      const [actual, expected] = [await load(quantized, ops), await load(plain, ops)];
      const [a, b] = [actual, expected].map((model) => logitsOf(ops, model).flatMap((logits) => [...logits]));
      const error = Math.hypot(...a!.map((value, i) => value - b![i]!)) / Math.hypot(...b!);
      expect(error).toBeLessThan(0.02);
      ops.close();
    },
  );

  const changed =
    (name: string, change: (tensor: StoredTensor) => StoredTensor | null): Damage =>
    (tensor) =>
      tensor.name === `model.layers.0.${name}` ? change(tensor) : tensor;
  const withBytes =
    (at: number, ...values: number[]) =>
    (tensor: StoredTensor): StoredTensor => {
      const bytes = tensor.bytes.slice();
      bytes.set(values, at);
      return { ...tensor, bytes };
    };

  it.each<[string, Scheme, Damage, RegExp]>([
    [
      'without its scales',
      ct,
      changed('mlp.down_proj.weight_scale', () => null),
      /tensor model\.layers\.0\.mlp\.down_proj\.weight_scale \[128, 8\] is missing/,
    ],
    [
      'with scales of another shape',
      gptqScheme({}),
      changed('mlp.down_proj.scales', (tensor) => ({ ...tensor, shape: [...tensor.shape].reverse() })),
      /tensor model\.layers\.0\.mlp\.down_proj\.scales must be \[8, 128\] by config\.json, it is \[128, 8\]/,
    ],
    [
      'with a scale that is not a number',
      AWQ,
      changed('mlp.down_proj.scales', withBytes(2 * 130, 0xff, 0x7f)),
      /mlp\.down_proj\.scales of .* is not finite at \[1, 2\]/,
    ],
    [
      'with a scale of zero',
      publishedFp8(true),
      changed('mlp.down_proj.weight_scale_inv', withBytes(0, 0, 0)),
      /mlp\.down_proj\.weight_scale_inv of .* must be above 0, row 0, group 0 .* is 0; fetch/,
    ],
    [
      'with a negative scale',
      gptqScheme({}),
      changed('self_attn.q_proj.scales', withBytes(2 * 5, 0, 0xbc)),
      /self_attn\.q_proj\.scales of .* must be above 0, row 5, group 0 .* is -1/,
    ],
    [
      'with a scale that is NaN as a power of 2',
      MXFP4,
      changed('self_attn.q_proj.weight_scale', withBytes(0, 255)),
      /self_attn\.q_proj\.weight_scale of .* must be above 0, row 0, group 0 .* is NaN/,
    ],
    [
      'with a negative scale in 8 bits',
      MODELOPT_NVFP4,
      changed('self_attn.q_proj.weight_scale', withBytes(9, 0xb8)),
      /self_attn\.q_proj\.weight_scale of .* must be above 0, row 1, group 1 .* is -0\.003/,
    ],
    [
      'with a scale of all scales that is zero',
      NVFP4,
      changed('self_attn.q_proj.weight_global_scale', withBytes(0, 0, 0, 0, 0)),
      /self_attn\.q_proj\.weight_global_scale of .* must be above 0, it is 0; fetch/,
    ],
    [
      'with scales that leave the range of bfloat16',
      MXFP4,
      changed('self_attn.q_proj.weight_scale', withBytes(4, 253)),
      /weight_scale of .* must be small enough for numbers of bfloat16, row 1, group 0/,
    ],
    [
      'with a weight of FP8 that is not a number',
      floatQuantized('channel'),
      changed('self_attn.o_proj.weight', withBytes(128 * 3 + 7, 0x7f)),
      /self_attn\.o_proj\.weight of .* is not finite at \[3, 7\]/,
    ],
    [
      'with groups of inputs that are none',
      gptqScheme({}),
      changed('mlp.gate_proj.g_idx', withBytes(4 * 9, 200)),
      /mlp\.gate_proj\.g_idx of .* must be from 0 to 3, input 9 is 200/,
    ],
    [
      'with groups of inputs of different sizes',
      gptqScheme({}),
      changed('mlp.gate_proj.g_idx', withBytes(0, 3)),
      /mlp\.gate_proj\.g_idx of .* must put 32 inputs into each group, group 1 has another number/,
    ],
    [
      'with groups that do not divide the inputs',
      { ...gptqScheme({}), config: { ...gptqScheme({}).config, group_size: 96 } },
      (tensor) => tensor,
      /^\/\S+: model\.layers\.0\.\S+ \[\d+, \d+\]: groups of 96 \(quantization_config in config\.json\) must divide/,
    ],
    [
      'with zero points missing',
      AWQ,
      changed('mlp.up_proj.qzeros', () => null),
      /tensor model\.layers\.0\.mlp\.up_proj\.qzeros \[2, 32\] is missing/,
    ],
    [
      'with codes in another format',
      gptqScheme({}),
      changed('mlp.up_proj.qweight', (tensor) => ({ ...tensor, dtype: 'f32' })),
      /mlp\.up_proj\.qweight \[16, 256\] must be I32, it is F32/,
    ],
  ])('is refused %s, as it is and as int8', async (_, scheme, damage, message) => {
    const ops = openBackend(backend);
    const { quantized } = publish(scheme, { damage });
    for (const quantization of [null, 'int8'] as const) {
      const loading = load(quantized, ops, { quantization });
      await expect(loading).rejects.toThrow(ModelLoadError);
      await expect(loading).rejects.toThrow(message);
    }
    ops.close();
  });

  it('whose parts of one product order their inputs differently is refused in codes, and becomes int8', async () => {
    const ops = openBackend(backend);
    const damage = changed('mlp.up_proj.g_idx', (tensor) => {
      const groups = new Int32Array(tensor.bytes.slice().buffer).reverse();
      return { ...tensor, bytes: new Uint8Array(groups.buffer) };
    });
    const { quantized } = publish(gptqScheme({ isPermuted: true }), { damage });
    const loading = load(quantized, ops);
    await expect(loading).rejects.toThrow(ModelLoadError);
    await expect(loading).rejects.toThrow(
      /^\S+\.safetensors: \S+gate_proj\.qweight and .*up_proj\.qweight are multiplied together, .* desc_act false .*, or --quantization int8/,
    );
    expect((await load(quantized, ops, { quantization: 'int8' })).weightFormat).toBe('int8');
    ops.close();
  });
});

describe('quantization_config', () => {
  const ops = new ReferenceOps();
  const weights = { num_bits: 4, type: 'int', symmetric: true, strategy: 'group', group_size: 32 };
  const compressed = (fields: object, group: object = {}) => ({
    ...ct.config,
    config_groups: { a: { targets: ['Linear'], weights, input_activations: null, ...group } },
    ...fields,
  });

  it.each<[string, Scheme, object, RegExp]>([
    [
      'groups that do not divide the inputs',
      ct,
      compressed({}, { weights: { ...weights, group_size: 96 } }),
      /q_proj \[128, 128\]: groups of 96 .* must divide its 128 inputs/,
    ],
    [
      'groups of a negative size',
      gptqScheme({}),
      { quant_method: 'gptq', bits: 4, group_size: -128 },
      /q_proj \[128, 128\]: groups of -128 .* must divide its 128 inputs/,
    ],
    [
      'an expression that takes exponential time',
      ct,
      compressed({ ignore: ['re:(.+)+!'] }),
      /an expression in "ignore" or "targets" of quantization_config takes longer than 1 s to match: .*\(\.\+\)\+!/,
    ],
    [
      'an expression that is none',
      ct,
      compressed({}, { targets: ['re:(q_proj'] }),
      /"targets" of quantization_config is no regular expression of JavaScript: .*\(q_proj/,
    ],
    [
      'groups of 16',
      gptqScheme({}),
      { quant_method: 'gptq', bits: 4, group_size: 16 },
      /groups of 16 .* a multiple of 32/,
    ],
    [
      'GPTQ in 3 bits',
      gptqScheme({}),
      { quant_method: 'gptq', bits: 3, group_size: 32 },
      /gptq is served as 4 or 8 bits only: .*bits/,
    ],
    [
      'AWQ of another version',
      AWQ,
      { ...AWQ.config, version: 'gemv' },
      /awq is served as .* only: .*version/,
    ],
    [
      'weights of 2 bits',
      ct,
      compressed({}, { weights: { ...weights, num_bits: 2 } }),
      /config_groups\.a\.weights\.num_bits/,
    ],
    [
      'a format of compressed-tensors that is not known',
      ct,
      compressed({ format: 'marlin-24' }),
      /format must be int-quantized, .* it is marlin-24/,
    ],
    [
      'FP8 in other blocks',
      publishedFp8(true),
      { quant_method: 'fp8', weight_block_size: [64, 64] },
      /fp8 is served as .* only: .*weight_block_size/,
    ],
    [
      'inputs that ModelOpt has scaled',
      MODELOPT_NVFP4,
      { quant_method: 'modelopt', quant_algo: 'NVFP4_AWQ' },
      /modelopt is served as quant_algo FP8, .* only: .*quant_algo/,
    ],
    [
      'a method that is not served',
      ct,
      { quant_method: 'bitsandbytes' },
      /bitsandbytes is not served; compressed-tensors, gptq, awq, fp8, modelopt, mxfp4 and bitnet are/,
    ],
  ])('is refused with %s', async (_, scheme, config, message) => {
    const { quantized } = publish(scheme, { config });
    await expect(load(quantized, ops)).rejects.toThrow(ModelLoadError);
    await expect(load(quantized, ops)).rejects.toThrow(message);
  });

  it('may be a mixture of FP8 and NVFP4, which only the tensors tell apart', async () => {
    const mixture = { ...MODELOPT_NVFP4.config, quant_algo: 'MIXED_PRECISION' };
    const [fp4, fp8] = [publish(MODELOPT_NVFP4, { config: mixture }), publish(MODELOPT_FP8)];
    for (const kind of ['quantized', 'plain'] as const) takeTensors(fp8[kind], fp4[kind], /\.mlp\./);
    const [actual, expected] = [await load(fp4.quantized, ops), await load(fp4.plain, ops)];
    expect(actual.weightFormat).toBe('fp8+nvfp4');
    expect(logitsOf(ops, actual)).toEqual(logitsOf(ops, expected));
  });

  it('may say how only in the file of ModelOpt', async () => {
    const { quantized, plain } = publish(MODELOPT_FP8);
    const path = join(quantized, 'config.json');
    const { quantization_config: _, ...config } = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify(config));
    const say = (quantization: object) =>
      writeFileSync(join(quantized, 'hf_quant_config.json'), JSON.stringify({ producer: {}, quantization }));
    say({ quant_algo: 'FP8', kv_cache_quant_algo: 'FP8', exclude_modules: ['lm_head'] });
    const [actual, expected] = [await load(quantized, ops), await load(plain, ops)];
    expect(actual.weightFormat).toBe('fp8');
    expect(logitsOf(ops, actual)).toEqual(logitsOf(ops, expected));
    say({ quant_algo: 'NVFP4_AWQ' });
    await expect(load(quantized, ops)).rejects.toThrow(/modelopt is served as quant_algo FP8/);
    // What config.json says counts.
    writeFileSync(path, JSON.stringify({ ...config, quantization_config: MODELOPT_FP8.config }));
    expect((await load(quantized, ops)).weightFormat).toBe('fp8');
    // Only keys and values are quantised.
    writeFileSync(
      join(plain, 'hf_quant_config.json'),
      JSON.stringify({ quantization: { quant_algo: null } }),
    );
    expect((await load(plain, ops)).weightFormat).toBe('bf16');
  });

  it('is quantised to nothing but int8', async () => {
    const { quantized } = publish(AWQ);
    const loading = load(quantized, ops, { quantization: 'int4' });
    await expect(loading).rejects.toThrow(ConfigError);
    await expect(loading).rejects.toThrow(
      /quantised already \(awq\): leave out --quantization, or give int8/,
    );
  });

  it('gives a projection the scheme of the group that names it, and no other the one for all', async () => {
    const group = (targets: string[], num_bits: number) => ({
      targets,
      weights: { ...weights, num_bits },
      input_activations: null,
    });
    const named = { all: group(['Linear'], 8), own: group(['re:.*_proj$'], 4) };
    const { quantized } = publish(ct, { config: compressed({ config_groups: named }) });
    expect((await load(quantized, ops)).weightFormat).toBe('int4-g32');
  });

  it('may give groups of projections schemes of their own', async () => {
    const scheme: Scheme = {
      ...ct,
      tensors: (name, codes) => (name.endsWith('down_proj') ? [] : ct.tensors(name, codes)),
    };
    const config = compressed({}, { targets: ['re:.*(_proj)$'] });
    const { quantized } = publish(scheme, { config });
    // The projections that are left out are nowhere.
    await expect(load(quantized, ops)).rejects.toThrow(/mlp\.down_proj\.weight \[128, 256\] is missing/);
  });
});
