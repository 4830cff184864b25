// Which GGUF files of a repository make the model that was asked for: one, or all the parts of a split one.

import { ModelLoadError } from '../errors.ts';
import type { GgufChoice } from './model-name.ts';

const PART = /-(\d{5})-of-(\d{5})\.gguf$/i;
/** Projectors of images are published beside models, and are no models. */
const NO_MODEL = /(^|\/)mmproj/i;

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
  for (const path of paths.filter((one) => /\.gguf$/i.test(one) && !NO_MODEL.test(one)).sort()) {
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
