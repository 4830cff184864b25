// How the weights are kept, at each side, and the files that each serves.

import { join } from 'node:path';
import type { GgmlType } from '../../test/fixtures/gguf-writer.ts';
import { writeRandomGguf } from '../random-gguf.ts';
import { type RandomModelShape, writeConfig, writeRandomModel } from '../random-model.ts';
import { writeGgufModel } from './gguf-model.ts';

/** What each side is told to serve. */
interface Paths {
  readonly svc: string;
  readonly peer: string;
}

export interface Scheme {
  readonly name: string;
  /** In the words of the peer. */
  readonly peerName: string;
  readonly shape: RandomModelShape;
  /** Of `svc serve`. */
  readonly options: readonly string[];
  /** Writes random weights into an empty folder. */
  write(folder: string): Paths;
}

export const SCHEMES: readonly Scheme[] = [
  converted('bf16', 'BF16', []),
  converted('int8', 'Q8_0', ['--quantization', 'int8']),
  converted('int4', 'Q4_0', ['--quantization', 'int4']),
  {
    // As most files of GGUF are published; of the other shape such a file has other formats, since its rows are no whole blocks of these.
    name: 'Q4_K_M',
    peerName: 'q4_k_m',
    shape: 'llama-3.2-1b',
    options: [],
    write(folder) {
      const path = join(folder, 'model.gguf');
      writeConfig(folder, this.shape);
      writeRandomGguf(folder, path, this.shape);
      return { svc: path, peer: path };
    },
  },
];

/** The same weights in bf16, which each side keeps in a format of its own. */
function converted(name: string, type: GgmlType, options: readonly string[]): Scheme {
  const shape = 'qwen2.5-0.5b';
  return {
    name,
    peerName: type.toLowerCase(),
    shape,
    options,
    write(folder) {
      const path = join(folder, 'model.gguf');
      writeRandomModel(folder, shape);
      writeGgufModel(folder, path, type);
      return { svc: folder, peer: path };
    },
  };
}
