// Damaged models for everything that reads one: safetensors, GGUF, SentencePiece and JSON. Whatever is in a file, a loader takes it
// or refuses it with an error that is meant for people, soon.

import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SvcError } from '../../src/errors.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { ADAPTER_CONFIG, readAdapterConfig } from '../../src/models/adapters/adapter-config.ts';
import { readGenerationConfig } from '../../src/models/generation-config.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { FolderSource } from '../../src/models/source/folder-source.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { readSafetensors } from '../../src/models/source/safetensors.ts';
import { buildTokenizerJson } from '../../src/tokenizer/build/build-document.ts';
import { FolderFiles, readWeightIndex } from '../../src/util/model-files.ts';
import { writeGgufModel } from '../fixtures/gguf-model.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { type Draw, mutateBytes, mutateJson, seededDraw } from './mutations.ts';

/** A file that is damaged, and what reads it. */
interface Target {
  readonly name: string;
  readonly path: string;
  readonly original: Buffer;
  readonly damage: (original: Buffer, draw: Draw) => Buffer;
  readonly load: () => unknown;
}

/** In memory where the machine has such a folder: on a disk, writing takes most of the time. */
const SCRATCH = existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir();

/** Goldens whose config.json has fields of its own. */
const OWN_CONFIGS = [
  'deepseek-v3',
  'gemma3-whole',
  'gemma3n',
  'gemma3n-uneven',
  'gemma4',
  'gemma4-small',
  'gpt2',
  'gpt-oss',
  'llama4',
  'phi3-longrope',
  'qwen2-moe',
  'smollm3-sliding',
];

/** Published texts of pooling models, by their folders. */
const POOLING_TEXTS: Readonly<Record<string, readonly string[]>> = {
  'bert-dense': [
    'config.json',
    'modules.json',
    '1_Pooling/config.json',
    '2_Dense/config.json',
    'sentence_bert_config.json',
    'config_sentence_transformers.json',
  ],
  'embedding-gemma': ['config.json'],
  'modernbert-reranker': ['config.json'],
  'distilbert-reranker': ['config.json'],
  'nomic-bert-mean': ['config.json'],
  'gte-reranker': ['config.json'],
  'xlm-roberta-reranker': ['config.json'],
};

/** In files of their own. */
const IMAGE_ENCODERS = [
  'qwen2-vl',
  'qwen2.5-vl',
  'qwen3-vl',
  'gemma3',
  'gemma4-small',
  'idefics3',
  'lfm2-vl',
  'internvl',
  'mistral3',
];

/** Ways to publish weights quantised, as `quantization_config` of a model. */
const QUANTIZED: readonly object[] = [
  { quant_method: 'gptq', bits: 4, group_size: 32, desc_act: true, sym: false, checkpoint_format: 'gptq_v2' },
  { quant_method: 'awq', bits: 4, group_size: 32, zero_point: true, version: 'gemm' },
  { quant_method: 'fp8', weight_block_size: [128, 128], activation_scheme: 'dynamic', fmt: 'e4m3' },
  {
    quant_method: 'compressed-tensors',
    format: 'pack-quantized',
    ignore: ['lm_head', 're:.*gate$'],
    config_groups: {
      group_0: {
        targets: ['Linear', 're:.*q_proj'],
        weights: {
          num_bits: 4,
          type: 'int',
          strategy: 'group',
          group_size: 32,
          symmetric: true,
          actorder: null,
        },
        input_activations: null,
      },
    },
  },
];

/** A loader that computes for longer, or takes that much memory, is at fault. */
const SLOW_MS = 2000;
/** Of an error, whatever the file names things. */
const MOST_CHARACTERS = 2000;
const MOST_RSS_BYTES = 3 * 2 ** 30;

export interface Fault {
  readonly target: string;
  /** `--seed` and `--start` of it repeat this one. */
  readonly run: number;
  readonly problem: string;
}

interface FuzzOptions {
  readonly seed: number;
  /** Number of the first mutation. */
  readonly start?: number;
  readonly runs: number;
  /** Ends earlier after this time. */
  readonly seconds?: number;
}

export interface FuzzResult {
  readonly runs: number;
  readonly refused: number;
  readonly faults: readonly Fault[];
}

/** Damages and loads, in turns, files of all kinds. */
export function fuzzLoaders({
  seed,
  start = 0,
  runs,
  seconds = Number.POSITIVE_INFINITY,
}: FuzzOptions): FuzzResult {
  const root = mkdtempSync(join(SCRATCH, 'svc-fuzz-'));
  const end = performance.now() + seconds * 1000;
  const faults: Fault[] = [];
  let [done, refused] = [0, 0];
  try {
    const targets = makeTargets(root);
    // What is refused undamaged would show nothing.
    for (const { load } of targets) load();
    for (; done < runs && performance.now() < end; done++) {
      const run = start + done;
      const target = targets[run % targets.length]!;
      writeFileSync(target.path, target.damage(target.original, seededDraw(seed * 1_000_003 + run)));
      const outcome = attempt(target);
      if (outcome === 'refused') refused += 1;
      else if (outcome !== 'taken') faults.push({ target: target.name, run, problem: outcome });
      writeFileSync(target.path, target.original);
    }
  } finally {
    rmSync(root, { recursive: true });
  }
  return { runs: done, refused, faults };
}

/** `taken`, `refused`, or what went wrong. */
function attempt({ load }: Target): string {
  const before = process.cpuUsage();
  let outcome = 'taken';
  try {
    load();
  } catch (error) {
    if (error instanceof SvcError && error.message.length <= MOST_CHARACTERS) outcome = 'refused';
    else return error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
  const { user, system } = process.cpuUsage(before);
  const took = (user + system) / 1000;
  if (took > SLOW_MS) return `it computed for ${Math.round(took)} ms`;
  const { rss } = process.memoryUsage();
  return rss > MOST_RSS_BYTES ? `the process takes ${Math.round(rss / 2 ** 20)} MiB` : outcome;
}

function makeTargets(root: string): Target[] {
  const folder = join(root, 'model');
  writeTinyModel(folder, { shards: 2, dtype: 'bf16' });
  const single = join(root, 'single');
  writeTinyModel(single, { dtype: 'bf16' });
  const gguf = join(root, 'm.gguf');
  writeGgufModel(single, gguf);
  const gemma4 = join(root, 'gemma4.gguf');
  copyFileSync(fileURLToPath(new URL('../fixtures/gguf/gemma4-small.gguf', import.meta.url)), gemma4);
  const files = new FolderFiles(folder);
  const pieces = join(root, 'pieces');
  mkdirSync(pieces);
  const sentencepiece = fileURLToPath(new URL('../fixtures/sentencepiece/bpe.model', import.meta.url));
  writeFileSync(join(pieces, 'tokenizer.model'), readFileSync(sentencepiece));
  writeFileSync(
    join(pieces, 'tokenizer_config.json'),
    '{"add_bos_token": true, "legacy": false, "bos_token": "<s>"}',
  );
  const merges = join(root, 'merges');
  mkdirSync(merges);
  writeFileSync(join(merges, 'vocab.json'), '{"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}');
  writeFileSync(join(merges, 'merges.txt'), '#version: 0.2\na b\nab c\n');
  const ofFolder = () => new FolderSource(folder).openCheckpoint();
  const adapter = join(root, 'adapter');
  mkdirSync(adapter);
  const fields = {
    peft_type: 'LORA',
    r: 8,
    lora_alpha: 16,
    target_modules: ['q_proj', 'v_proj'],
    rank_pattern: { k_proj: 4 },
  };
  writeFileSync(join(adapter, ADAPTER_CONFIG), JSON.stringify(fields));
  const configs = OWN_CONFIGS.map((name) => {
    const copy = join(root, name);
    mkdirSync(copy);
    copyFileSync(
      fileURLToPath(new URL(`../fixtures/goldens/${name}/config.json`, import.meta.url)),
      join(copy, 'config.json'),
    );
    return jsonTarget(join(copy, 'config.json'), () => readModelConfig(new FolderFiles(copy)));
  });
  const pooling = Object.entries(POOLING_TEXTS).flatMap(([name, texts]) => {
    const copy = join(root, name);
    cpSync(fileURLToPath(new URL(`../fixtures/pooling/${name}`, import.meta.url)), copy, { recursive: true });
    const prompts = { query: 'Question: ', document: '' };
    writeFileSync(
      join(copy, 'config_sentence_transformers.json'),
      JSON.stringify({ prompts, default_prompt_name: 'query' }),
    );
    writeFileSync(join(copy, 'sentence_bert_config.json'), '{"max_seq_length": 100, "do_lower_case": false}');
    return texts.map((text) =>
      jsonTarget(join(copy, text), () =>
        readModelConfig(new FolderFiles(copy), { runner: 'auto', convert: 'auto' }),
      ),
    );
  });
  const quantized = QUANTIZED.map((quantization_config, index) => {
    const copy = join(root, `quantized-${index}`);
    writeTinyModel(copy, { config: { quantization_config } });
    return jsonTarget(join(copy, 'config.json'), () => readModelConfig(new FolderFiles(copy)));
  });
  return [
    bytesTarget(join(single, 'model.safetensors'), () => readSafetensors(join(single, 'model.safetensors'))),
    ...[gguf, gemma4, ...poolingFiles(root)].map((path) => bytesTarget(path, () => loadGguf(path))),
    ...IMAGE_ENCODERS.map((name) => encoderTarget(join(root, `sees-${name}`), name)),
    bytesTarget(join(pieces, 'tokenizer.model'), () => buildTokenizerJson(new FolderFiles(pieces))),
    jsonTarget(join(folder, 'config.json'), () => readModelConfig(files)),
    jsonTarget(join(folder, 'generation_config.json'), () =>
      readGenerationConfig(files, { source: 'auto', override: null }),
    ),
    jsonTarget(join(folder, 'model.safetensors.index.json'), () => [readWeightIndex(folder), ofFolder()]),
    jsonTarget(join(pieces, 'tokenizer_config.json'), () => buildTokenizerJson(new FolderFiles(pieces))),
    jsonTarget(join(merges, 'vocab.json'), () => buildTokenizerJson(new FolderFiles(merges))),
    bytesTarget(join(merges, 'merges.txt'), () => buildTokenizerJson(new FolderFiles(merges))),
    ...configs,
    ...pooling,
    ...quantized,
    jsonTarget(join(adapter, ADAPTER_CONFIG), () => readAdapterConfig(adapter)),
    safetensorsHeaderTarget(join(folder, 'model-00001-of-00002.safetensors'), ofFolder),
  ];
}

/** Of each kind of head, pooling and tokenizer. */
function poolingFiles(root: string): string[] {
  return ['bert-cls', 'xlm-roberta-reranker', 'embedding-gemma', 'qwen3-reranker'].map((name) => {
    const path = join(root, `${name}.gguf`);
    copyFileSync(fileURLToPath(new URL(`../fixtures/gguf-pooling/${name}.gguf`, import.meta.url)), path);
    return path;
  });
}

function loadGguf(path: string): void {
  const source = openModelSource(path);
  for (const name of ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'] as const)
    source.read(name);
  readModelConfig(source);
  source.openCheckpoint();
  source.fingerprint();
}

/** What sees images beside a model in GGUF. */
function encoderTarget(folder: string, name: string): Target {
  cpSync(fileURLToPath(new URL(`../fixtures/gguf-vision/${name}`, import.meta.url)), folder, {
    recursive: true,
  });
  const path = join(folder, 'model.gguf');
  return bytesTarget(join(folder, 'mmproj-model.gguf'), () => {
    const source = openModelSource(path);
    readModelConfig(source);
    const checkpoint = source.openCheckpoint();
    // Numbers of several tensors are put together when it is looked for.
    for (const patches of checkpoint.names.filter((one) => one.includes('patch')))
      checkpoint.find(patches, checkpoint.shapeOf(patches)!);
    loadImageProcessor(source, name.startsWith('gemma4') ? { max_soft_tokens: 70 } : {});
  });
}

/** Most of a header is in its beginning; in a GGUF file and in safetensors data follows. */
const HEADER_BYTES = 4096;

function bytesTarget(path: string, load: () => unknown): Target {
  const damage = (original: Buffer, draw: Draw) => mutateBytes(original, HEADER_BYTES, draw);
  return { name: path.split('/').at(-1)!, path, original: readFileSync(path), damage, load };
}

function jsonTarget(path: string, load: () => unknown): Target {
  const damage = (original: Buffer, draw: Draw) => mutateJson(original.toString('utf8'), draw);
  return { name: path.split('/').at(-1)!, path, original: readFileSync(path), damage, load };
}

/** The JSON in the header, behind a length that is right. */
function safetensorsHeaderTarget(path: string, load: () => unknown): Target {
  const original = readFileSync(path);
  const length = Number(original.readBigUInt64LE());
  const damage = (_: Buffer, draw: Draw): Buffer => {
    const header = mutateJson(original.toString('utf8', 8, 8 + length), draw);
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(BigInt(header.length));
    return Buffer.concat([prefix, header, original.subarray(8 + length)]);
  };
  return { name: 'header of safetensors', path, original, damage, load };
}
