// The encoder of images beside a model in a GGUF file: a file of its own, which says in its name that it is one (`mmproj`).

import { readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { ModelLoadError } from '../../../../errors.ts';
import { isImageEncoderPath } from '../../../../util/model-file.ts';
import { ENCODER_ARCHITECTURE } from '../gguf-architecture.ts';
import { type GgufFile, readGguf } from '../gguf-file.ts';
import { GgufKeys } from '../gguf-keys.ts';
import { type EncoderKind, type Fields, layerSizes } from './encoder-kind.ts';
import { ENCODER_KINDS } from './encoder-kinds.ts';

export interface EncoderFile {
  readonly file: GgufFile;
  readonly keys: GgufKeys;
  readonly kind: EncoderKind;
}

/** What its matrices are published in: the first that there is is read. */
const PREFERRED_FORMATS: readonly string[] = ['BF16', 'F16', 'F32'];

/** What is beside a model. */
interface FoundEncoder {
  /** Null where the model sees no images. */
  readonly encoder: EncoderFile | null;
  /** What a person should know of a file that is not read, though it looks like one of this model. */
  readonly note: string | null;
}

/**
 * Of an encoder in several formats, the best.
 * @param path of the model
 * @param text what its file says of the part that reads text
 * @throws ModelLoadError where those of several models would do.
 */
export function findEncoderFile(path: string, text: GgufKeys): FoundEncoder {
  const files = encoderPaths(path)
    .map((one) => readGguf(one))
    .map((file) => ({ file, keys: new GgufKeys([file]) }))
    .filter(({ keys }) => isAsWide(keys, text));
  const fitting = files.flatMap(({ file, keys }) => {
    const kind = kindOf(keys);
    return kind !== null && fits(kind, text) ? [{ file, keys, kind }] : [];
  });
  const named = fitting.filter(({ keys }) => nameOf(keys) !== null && nameOf(keys) === nameOf(text));
  const [first, ...others] = named.length > 0 ? named : fitting;
  if (first === undefined) return { encoder: null, note: noteOfUnknown(files) };
  const other = others.find(({ kind, keys }) => kind !== first.kind || nameOf(keys) !== nameOf(first.keys));
  if (other !== undefined) {
    const names = [first, other].map(({ file }) => basename(file.path));
    throw new ModelLoadError(
      `${path}: ${names.join(' and ')} beside it would both make it see images: leave only the right one there`,
    );
  }
  return { encoder: [first, ...others].toSorted((a, b) => rankOf(a) - rankOf(b))[0]!, note: null };
}

/** Beside the model or, where it is in a folder of its format, above. */
function encoderPaths(path: string): readonly string[] {
  const folder = dirname(resolve(path));
  const beside = encodersIn(folder);
  const isOfFormat = basename(path).toLowerCase().includes(basename(folder).toLowerCase());
  return beside.length === 0 && isOfFormat ? encodersIn(dirname(folder)) : beside;
}

/** None where the folder may not be read: that the model may be is enough. */
function encodersIn(folder: string): readonly string[] {
  try {
    const names = readdirSync(folder).filter(isImageEncoderPath).sort();
    return names.map((name) => join(folder, name));
  } catch {
    return [];
  }
}

/** Whether its rows can stand among the embeddings of the model. */
function isAsWide(keys: GgufKeys, text: GgufKeys): boolean {
  return (
    keys.architecture === ENCODER_ARCHITECTURE &&
    keys.ofModel('vision.projection_dim') === text.ofModel('embedding_length')
  );
}

/** Null where svc does not know it. */
function kindOf(keys: GgufKeys): EncoderKind | null {
  const kind = ENCODER_KINDS.get(typeOf(keys)) ?? null;
  return kind?.needs === undefined || keys.hasTensor(kind.needs) ? kind : null;
}

function typeOf(keys: GgufKeys): string {
  return keys.text('clip.vision.projector_type') ?? keys.text('clip.projector_type') ?? 'none';
}

/** Whether the model has a token where its rows go. */
function fits({ architectures, placeholder }: EncoderKind, text: GgufKeys): boolean {
  if (!Object.hasOwn(architectures, text.architecture)) return false;
  const tokens = text.strings('tokenizer.ggml.tokens');
  return tokens === null || tokens.includes(placeholder);
}

function noteOfUnknown(files: readonly Pick<EncoderFile, 'file' | 'keys'>[]): string | null {
  const unknown = files.find(({ keys }) => kindOf(keys) === null);
  if (unknown === undefined) return null;
  const known = [...ENCODER_KINDS.keys()].join(', ');
  return (
    `${unknown.file.path} is an encoder of images that svc does not know (clip.projector_type ${typeOf(unknown.keys)}): the model reads ` +
    `only text; known are ${known}`
  );
}

function nameOf(keys: GgufKeys): string | null {
  return keys.text('general.name');
}

function rankOf({ keys }: EncoderFile): number {
  const rank = PREFERRED_FORMATS.indexOf(keys.formatOf('v.blk.0.ffn_up.weight') ?? '');
  return rank < 0 ? PREFERRED_FORMATS.length : rank;
}

/** config.json of the whole. @param text that of the part that reads text */
export function wholeConfig({ kind, keys }: EncoderFile, textKeys: GgufKeys, text: Fields): Fields {
  const { tie_word_embeddings, quantization_config, torch_dtype } = text;
  return {
    architectures: [kind.architectures[textKeys.architecture]],
    tie_word_embeddings,
    quantization_config,
    torch_dtype,
    text_config: { ...text, ...kind.textConfig?.(textKeys) },
    ...kind.config(layerSizes(keys), keys),
  };
}

/** preprocessor_config.json. */
export function imageConfig({ kind, keys }: EncoderFile): Fields {
  const numbers = (key: string) => keys.numbers(`clip.vision.${key}`);
  return { ...kind.images(keys), image_mean: numbers('image_mean'), image_std: numbers('image_std') };
}
