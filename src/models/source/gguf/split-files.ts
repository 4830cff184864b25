// A model in several files: `name-00001-of-00003.gguf` and so on, of which the first is the one to name.

import { existsSync } from 'node:fs';
import { ModelLoadError } from '../../../errors.ts';
import { preview } from '../../../util/preview.ts';
import { type GgufFile, readGguf } from './gguf-file.ts';

const PART = /-(\d{5})-of-(\d{5})(\.gguf)$/i;

/** No model has more; each is opened. */
const MOST_PARTS = 1000;

/**
 * All files of the model at `path`, read and checked; one where it is not split.
 * @throws ModelLoadError where a part is missing, or another than its name says.
 */
export function readParts(path: string): [GgufFile, ...GgufFile[]] {
  const first = readGguf(path);
  const count = first.metadata.get('split.count') ?? 1;
  const number = first.metadata.get('split.no') ?? 0;
  if (count === 1 || count === 0) return [first];
  if (typeof count !== 'number' || count > MOST_PARTS) {
    throw new ModelLoadError(
      `${path}: split.count must be a number up to ${MOST_PARTS}; fetch the file again`,
    );
  }
  const named = PART.exec(path);
  if (named === null || Number(named[2]) !== count) {
    throw new ModelLoadError(
      `${path} is part of a model in ${count} files: expected a name that ends in -00001-of-${five(count)}.gguf, as it was published`,
    );
  }
  if (number !== 0) {
    throw new ModelLoadError(
      `${path} is part ${Number(number) + 1} of ${count}: name the first, ${partPath(path, 1, count)}`,
    );
  }
  const others = Array.from({ length: count - 1 }, (_, i) =>
    readPart(partPath(path, i + 2, count), i + 2, count),
  );
  const parts: [GgufFile, ...GgufFile[]] = [first, ...others];
  expectAllTensors(path, parts);
  return parts;
}

function readPart(path: string, number: number, count: number): GgufFile {
  if (!existsSync(path)) {
    throw new ModelLoadError(
      `${path} is missing: the model is in ${count} files, this is one of them; fetch it again`,
    );
  }
  const part = readGguf(path);
  if (part.metadata.get('split.no') === number - 1 && part.metadata.get('split.count') === count) return part;
  throw new ModelLoadError(
    `${path} must be part ${number} of ${count}, its header says otherwise; fetch it again`,
  );
}

function expectAllTensors(path: string, parts: readonly GgufFile[]): void {
  const expected = parts[0]?.metadata.get('split.tensors.count');
  const found = parts.reduce((sum, { tensors }) => sum + tensors.size, 0);
  if (expected === undefined || expected === found) return;
  throw new ModelLoadError(
    `${path}: the ${parts.length} files hold ${found} tensors, split.tensors.count says ${preview(expected)}; fetch them again`,
  );
}

function partPath(path: string, number: number, count: number): string {
  return path.replace(PART, `-${five(number)}-of-${five(count)}$3`);
}

function five(number: number): string {
  return String(number).padStart(5, '0');
}
