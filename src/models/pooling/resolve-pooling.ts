// Decides what a model is for: text, vectors or scores. Its files say it, and options where they leave it open.

import * as z from 'zod';
import { ConfigError, ModelLoadError } from '../../errors.ts';
import { checkModelJson, parseModelJson } from '../../util/model-file.ts';
import type { ModelFiles } from '../../util/model-files.ts';
import type { ModelConfig } from '../model-config.ts';
import type {
  DenseLayer,
  EmbeddingConfig,
  LabelHead,
  PooledRows,
  PoolingChoice,
  PoolingConfig,
  ScoringConfig,
  TokenHead,
} from './pooling-config.ts';
import { readMaxSequence, readSentenceFiles, type SentenceFiles } from './sentence-files.ts';

/** What the name of an architecture says: `ForCausalLM` and the like generate, the bare model embeds, a classifier scores. */
export type NamedTask = 'generate' | 'embed' | 'score';

/** How a model was recognised. */
export interface PublishedModel {
  readonly files: ModelFiles;
  /** config.json. */
  readonly path: string;
  readonly json: unknown;
  readonly namedTask: NamedTask;
  readonly choice: PoolingChoice;
}

const own = z.looseObject({
  num_labels: z.int().nullish(),
  id2label: z.record(z.string(), z.unknown()).nullish(),
  is_matryoshka: z.boolean().nullish(),
  matryoshka_dimensions: z.array(z.int().positive()).nullish(),
  classifier_from_token: z.array(z.string()).min(1).max(2).nullish(),
  sentence_transformers: z.looseObject({ activation_fn: z.string().nullish() }).nullish(),
  sbert_ce_default_activation_function: z.string().nullish(),
});

const direction = z.looseObject({
  is_causal: z.boolean().nullish(),
  use_bidirectional_attention: z.boolean().nullish(),
});

type OwnFields = z.output<typeof own>;

/**
 * The config of a model with what it makes of a sequence, and as long as that was trained for.
 * @throws ModelLoadError where its files ask for what is not supported, ConfigError where options contradict them.
 */
export function withPooling(config: ModelConfig, model: PublishedModel): ModelConfig {
  const { files, path, json } = model;
  expectKnownDirection(config, model);
  const sentences = readSentenceFiles(files);
  const task = chooseTask(config, model, sentences);
  if (task === 'generate') return config;
  const fields = checkModelJson(path, json, own);
  const pooling: PoolingConfig =
    task === 'embed'
      ? embeddingConfig(config, model, fields, sentences)
      : scoringConfig(config, fields, model, sentences);
  expectLastRow(config, pooling, path);
  const { tensorNames } = config;
  const most = Math.min(config.maxPositionEmbeddings, readMaxSequence(files) ?? config.maxPositionEmbeddings);
  return {
    ...config,
    pooling,
    maxPositionEmbeddings: most,
    longestContext: most,
    // Embedding models are often published without what is around them in one that generates.
    tensorNames: { ...tensorNames, roots: [...new Set([...tensorNames.roots, ''])] },
  };
}

function chooseTask(
  { encoder }: ModelConfig,
  { path, namedTask, choice }: PublishedModel,
  sentences: SentenceFiles | null,
): NamedTask {
  const { runner, convert } = choice;
  const isPooling = encoder !== null || namedTask !== 'generate' || sentences !== null;
  const wantsText = runner === 'generate' || convert === 'none';
  if (wantsText && (encoder !== null || namedTask === 'score')) {
    const [option, value] = runner === 'generate' ? ['runner', runner] : ['convert', convert];
    throw new ConfigError(
      `--${option} ${value}: ${path} is of a model that cannot generate text: leave the option out`,
      {
        param: option,
      },
    );
  }
  if (wantsText) return 'generate';
  if (convert === 'embed' || convert === 'classify') return convert === 'embed' ? 'embed' : 'score';
  if (!isPooling && runner === 'auto') return 'generate';
  return namedTask === 'score' || sentences?.scoreTokens ? 'score' : 'embed';
}

/** @throws ModelLoadError for a decoder that was trained to see the tokens after each. */
function expectKnownDirection({ encoder, architecture }: ModelConfig, { path, json }: PublishedModel): void {
  if (encoder !== null) return;
  const { is_causal, use_bidirectional_attention } = checkModelJson(path, json, direction);
  if (is_causal !== false && !use_bidirectional_attention) return;
  throw new ModelLoadError(
    `${path}: ${architecture} whose tokens see those after them (is_causal false, or use_bidirectional_attention) is not supported`,
  );
}

function embeddingConfig(
  config: ModelConfig,
  { files }: PublishedModel,
  { is_matryoshka, matryoshka_dimensions: listed }: OwnFields,
  sentences: SentenceFiles | null,
): EmbeddingConfig {
  // Qwen3's embedding models can be cut anywhere, which their files do not say.
  const isAny = is_matryoshka ?? (config.architecture === 'Qwen3ForCausalLM' && sentences !== null);
  const dense = sentences?.dense ?? [];
  const size = sizeBehind(dense, config.hiddenSize, files.path);
  return {
    task: 'embed',
    rows: sentences?.rows ?? defaultRows(config),
    dense,
    size,
    isNormalized: sentences?.rows == null || sentences.isNormalized,
    dimensions: listed?.filter((length) => length < size) ?? (isAny ? 'any' : []),
    prompts: sentences?.prompts ?? { texts: new Map(), defaultName: null },
  };
}

/** @throws ModelLoadError where a layer takes other numbers than there are before it. */
function sizeBehind(layers: readonly DenseLayer[], hiddenSize: number, path: string): number {
  return layers.reduce((size, { name, inputs, outputs }) => {
    if (inputs === size) return outputs;
    throw new ModelLoadError(
      `${path}/${name}: in_features must be ${size}, the numbers of what comes before, got ${inputs}`,
    );
  }, hiddenSize);
}

function defaultRows({ encoder }: ModelConfig): PooledRows {
  return encoder?.pooledRows ?? 'last';
}

function scoringConfig(
  config: ModelConfig,
  fields: OwnFields,
  model: PublishedModel,
  sentences: SentenceFiles | null,
): ScoringConfig {
  const { encoder, architecture, vocabSize } = config;
  const head = encoder === null ? tokenHead(fields, model, sentences) : null;
  const outside = head?.tokenIds.find((id) => id >= vocabSize);
  if (outside !== undefined) {
    throw new ModelLoadError(
      `${model.path}: the token ${outside} that scores is not below vocab_size, ${vocabSize}`,
    );
  }
  const activation =
    fields.sentence_transformers?.activation_fn ?? fields.sbert_ce_default_activation_function ?? '';
  return {
    task: 'score',
    rows: defaultRows(config),
    head: head ?? { kind: 'classifier', numLabels: labelsOf(config, model, fields) },
    activation: activation.endsWith('Identity') ? 'none' : 'sigmoid',
    prompt: architecture === 'Qwen3ForCausalLM' ? 'qwen3' : 'pair',
  };
}

/** Null where a classifier scores. */
function tokenHead(
  { classifier_from_token: texts }: OwnFields,
  { files, namedTask }: PublishedModel,
  sentences: SentenceFiles | null,
): TokenHead | null {
  const tokens = sentences?.scoreTokens;
  if (tokens) {
    return { kind: 'tokens', tokenIds: tokens.no === null ? [tokens.yes] : [tokens.yes, tokens.no] };
  }
  // As other engines take them: what does not fit comes first.
  const [no, yes] = texts ?? (namedTask === 'score' ? [] : ['no', 'yes']);
  if (no === undefined) return null;
  const wanted = yes === undefined ? [no] : [yes, no];
  return { kind: 'tokens', tokenIds: tokenIdsOf(files, wanted) };
}

const vocabulary = z.looseObject({
  model: z.looseObject({ vocab: z.record(z.string(), z.int().nonnegative()) }),
});

function tokenIdsOf(files: ModelFiles, texts: readonly string[]): number[] {
  const found = files.read('tokenizer.json');
  if (found === null) {
    throw new ModelLoadError(
      `${files.path}/tokenizer.json is missing: scores are made of its tokens ${texts.join(' and ')}`,
    );
  }
  const { vocab } = parseModelJson(found, vocabulary, 'a tokenizer with a vocabulary').model;
  return texts.map((text) => {
    if (Object.hasOwn(vocab, text)) return vocab[text]!;
    throw new ModelLoadError(
      `${found.path}: scores are made of the token "${text}", which is not in the vocabulary`,
    );
  });
}

/** The protocols know one score of two texts; a decoder may make it of a label that fits and one that does not. */
function labelsOf(
  { encoder }: ModelConfig,
  { path }: PublishedModel,
  { num_labels, id2label }: OwnFields,
): LabelHead['numLabels'] {
  const count = num_labels ?? (id2label ? Object.keys(id2label).length : 2);
  if (count === 1) return count;
  if (count === 2 && encoder === null && id2label?.[0] === 'yes' && id2label[1] === 'no') return count;
  throw new ModelLoadError(
    `${path}: num_labels must be 1, got ${count}: classifiers that give one score are served, as rerankers are`,
  );
}

/** What a decoder has computed of a prompt may come from its cache, and may be cut into steps: its last row is there alone. */
function expectLastRow({ encoder, architecture }: ModelConfig, { rows }: PoolingConfig, path: string): void {
  if (encoder !== null || rows === 'last') return;
  throw new ModelLoadError(
    `${path}: ${architecture} must pool the last token, whose state has seen the whole text; pooling of kind ${rows} is for encoders`,
  );
}
