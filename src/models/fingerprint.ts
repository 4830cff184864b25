// Names a model by what it computes, so that instances that exchange KV blocks can tell that theirs are the same, and
// clients that answers come from the same model. The engine core calls it once at start.

import { createHash, type Hash } from 'node:crypto';
import { closeSync, fstatSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { openModelFile } from '../util/model-file.ts';
import { weightFiles } from './weights/checkpoint.ts';

/** Weights of any size are told apart by samples: reading all of them would double the time to start. */
const SAMPLES = 16;
const SAMPLE_BYTES = 4096;

/**
 * SHA-256, in hex, over config.json and, of each file of weights, its name, size, header and 16 samples of 4 KiB.
 * @throws ModelLoadError where the folder holds no weights.
 */
export function modelFingerprint(folder: string): string {
  const hash = createHash('sha256');
  const config = readFileSync(join(folder, 'config.json'));
  hash.update(`config.json ${config.length}\n`).update(config);
  for (const name of weightFiles(folder)) addFile(hash, folder, name);
  return hash.digest('hex');
}

function addFile(hash: Hash, folder: string, name: string): void {
  const file = openModelFile(join(folder, name));
  try {
    const { size } = fstatSync(file);
    const headerBytes = 8 + Number(read(file, 0, 8).readBigUInt64LE());
    hash.update(`${name} ${size} ${headerBytes}\n`).update(read(file, 0, headerBytes));
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
