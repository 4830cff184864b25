// Names a model by what it computes, so that instances that exchange KV blocks can tell that theirs are the same, and
// clients that answers come from the same model.

import { createHash, type Hash } from 'node:crypto';
import { closeSync, fstatSync, readSync } from 'node:fs';
import { basename } from 'node:path';
import { openModelFile } from '../../util/model-file.ts';

/** Weights of any size are told apart by samples: reading all of them would double the time to start. */
const SAMPLES = 16;
const SAMPLE_BYTES = 4096;

export interface WeightFile {
  readonly path: string;
  /** Before the first tensor. */
  readonly headerBytes: number;
}

/**
 * SHA-256, in hex, over config.json and, of each file of weights, its name, size, header and 16 samples of 4 KiB.
 * @param config empty where the files themselves say what the model is.
 * @throws ModelLoadError where a file cannot be read.
 */
export function weightFingerprint(config: string, files: readonly WeightFile[]): string {
  const hash = createHash('sha256');
  hash.update(`config.json ${Buffer.byteLength(config)}\n`).update(config);
  for (const file of files) addFile(hash, file);
  return hash.digest('hex');
}

function addFile(hash: Hash, { path, headerBytes }: WeightFile): void {
  const file = openModelFile(path);
  try {
    const { size } = fstatSync(file);
    hash.update(`${basename(path)} ${size} ${headerBytes}\n`).update(read(file, 0, headerBytes));
    for (let sample = 0; sample < SAMPLES; sample += 1) {
      const last = Math.max(headerBytes, size - SAMPLE_BYTES);
      const position = headerBytes + Math.floor(((last - headerBytes) * sample) / (SAMPLES - 1));
      hash.update(read(file, position, SAMPLE_BYTES));
    }
  } finally {
    closeSync(file);
  }
}

/** As many of `length` bytes as there are. */
function read(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(file, bytes, 0, length, position));
}
