// Which GGUF files of a repository make the model that was asked for: one, or all the parts of a split one.

import { basename, dirname } from 'node:path';
import { ModelLoadError } from '../errors.ts';
import { isGgufPath, isImageEncoderPath } from '../util/model-file.ts';
import type { GgufChoice } from './model-name.ts';

const PART = /-(\d{5})-of-(\d{5})\.gguf$/i;

/**
 * The paths of one model, the first part first.
 * @param choice null takes the only model that there is
 * @throws ModelLoadError that lists what there is, where no model or more than one is meant.
 */
export function selectGguf(
  repository: string,
  paths: readonly string[],
  choice: GgufChoice | null,
): readonly string[] {
  const models = new Map<string, string[]>();
  for (const path of paths.filter((one) => isGgufPath(one) && !isImageEncoderPath(one)).sort()) {
    const whole = path.replace(PART, '.gguf');
    models.set(whole, [...(models.get(whole) ?? []), path]);
  }
  const chosen = [...models].filter(([whole, parts]) => isChosen(whole, parts, choice));
  if (models.size === 0) {
    throw new ModelLoadError(
      `${repository} holds no *.gguf file: name a model that is published as GGUF, or leave out what asks for it (:Q4_K_M, --load-format gguf)`,
    );
  }
  const [only, ...others] = chosen;
  if (only === undefined || others.length > 0) {
    const names = [...(chosen.length > 0 ? chosen : models)].map(([, [first]]) => `${repository}/${first}`);
    const what = choice === null ? '' : ` ${'file' in choice ? choice.file : `of ${choice.quantization}`}`;
    const number = only === undefined ? 'no' : 'more than one';
    throw new ModelLoadError(
      `${repository} holds ${number} GGUF model${what}: give one of ${names.join(', ')}`,
    );
  }
  expectAllParts(repository, only[1]);
  return only[1];
}

/** How good the copies of one encoder are, by their names: numbers of 16 bits are what it is computed with. */
const ENCODER_FORMATS: readonly RegExp[] = [/bf16/i, /f16/i, /f32/i];

/** What the model at `path` sees images with: the best file beside it or, where it is in a folder of its format, above. Null: there is none. */
export function selectImageEncoder(paths: readonly string[], path: string): string | null {
  const folders = [dirname(path), dirname(dirname(path))];
  const rankOf = (name: string): number => {
    const format = ENCODER_FORMATS.findIndex((pattern) => pattern.test(basename(name)));
    return format < 0 ? ENCODER_FORMATS.length : format;
  };
  for (const folder of folders) {
    const found = paths.filter((one) => isImageEncoderPath(one) && dirname(one) === folder);
    if (found.length > 0) return found.sort().toSorted((a, b) => rankOf(a) - rankOf(b))[0]!;
  }
  return null;
}

function isChosen(whole: string, parts: readonly string[], choice: GgufChoice | null): boolean {
  if (choice === null) return true;
  if ('file' in choice) return whole === choice.file || parts.includes(choice.file);
  const end = `${choice.quantization}.gguf`.toLowerCase();
  const name = whole.toLowerCase();
  return name.endsWith(end) && /^$|[-._/]$/.test(name.slice(0, -end.length));
}

function expectAllParts(repository: string, parts: readonly string[]): void {
  const count = Number(PART.exec(parts[0] ?? '')?.[2] ?? 1);
  if (parts.length === count) return;
  throw new ModelLoadError(`${repository} holds ${parts.length} of the ${count} parts of ${parts[0]}`);
}
