// What svc must know of an encoder of images to read its GGUF file, in which converters write what a model sees images with.

import type { GgufKeys } from '../gguf-keys.ts';

export type Fields = Readonly<Record<string, unknown>>;

export interface EncoderKind {
  /** Of the whole model in config.json, by `general.architecture` of the part that reads text. */
  readonly architectures: Readonly<Record<string, string>>;
  /** A token of the vocabulary without which images have no place. */
  readonly placeholder: string;
  /** A tensor without which the file is another encoder of this name. */
  readonly needs?: string;
  /** Fields of config.json beside `text_config`, for which the size of the layers is ready. */
  readonly config: (layers: LayerSizes, encoder: GgufKeys) => Fields;
  /** Fields of `text_config` that the part that reads text has no use for by itself. */
  readonly textConfig?: (text: GgufKeys) => Fields;
  /** preprocessor_config.json beside colours. */
  readonly images: (encoder: GgufKeys) => Fields;
  /** What names of the original's tensors of text begin with. */
  readonly textRoot: string;
  /** Modules outside the layers: GGUF's name to the original's. A name that ends as tensors do is that of one tensor. */
  readonly modules: Readonly<Record<string, string>>;
  /** What the original's names of layers begin with. */
  readonly layers: string;
  readonly layerModules: Readonly<Record<string, string>>;
  /** Of modules of which files may lack the first dimensions, which are one: so many they have. */
  readonly dimensions?: Readonly<Record<string, number>>;
  /** Tensors that converters write, and the original does not have. */
  readonly unused?: readonly string[];
  /** Converted so that the two halves of each head of queries and keys take turns. */
  readonly hasPairedHeads?: boolean;
  /** What the original's names begin with of what makes rows for later layers of the text, one for each layer that does. */
  readonly deepMergers?: string;
  /** A norm whose weight the original publishes as what it differs from 1. */
  readonly normFrom0?: string;
}

/** In the words of most `vision_config`s. */
export interface LayerSizes {
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly patch_size: number;
}

/** @throws ModelLoadError where the file lacks one. */
export function layerSizes(keys: GgufKeys): LayerSizes {
  const need = (name: string): number => keys.need(`vision.${name}`);
  const hidden = need('embedding_length');
  // Older converters did not say how wide the feed-forward is.
  const width = keys.shapeOf('v.blk.0.ffn_up.weight')?.find((size) => size !== hidden);
  return {
    hidden_size: hidden,
    intermediate_size: width ?? need('feed_forward_length'),
    num_hidden_layers: need('block_count'),
    num_attention_heads: need('attention.head_count'),
    patch_size: need('patch_size'),
  };
}

/** Layers of whose rows later layers of the text get something. */
export function deepLayers(keys: GgufKeys): readonly number[] {
  const flags = keys.flags('clip.vision.is_deepstack_layers') ?? [];
  return [...flags.keys()].filter((layer) => flags[layer]);
}

/** Whether the two products of feed-forwards have each other's names, as older converters wrote them. */
export function isFeedForwardSwapped(keys: GgufKeys): boolean {
  const [outputs, inputs] = keys.shapeOf('v.blk.0.ffn_down.weight') ?? [];
  const hidden = keys.need('vision.embedding_length');
  return inputs === hidden && outputs !== hidden;
}
