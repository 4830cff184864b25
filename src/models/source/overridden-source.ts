// A model source of which --hf-overrides changes fields of config.json: the same texts, tensors and tokenizer otherwise.

import { createHash } from 'node:crypto';
import * as z from 'zod';
import type { JsonObject } from '../../config/option-kinds.ts';
import { type ModelBytes, type ModelText, parseModelJson } from '../../util/model-file.ts';
import type { ModelFileName, SENTENCEPIECE_FILE } from '../../util/model-files.ts';
import type { Checkpoint } from './checkpoint.ts';
import type { ModelSource } from './model-source.ts';

const object = z.record(z.string(), z.unknown());

export class OverriddenSource implements ModelSource {
  readonly #source: ModelSource;
  readonly #overrides: JsonObject;

  /** @param overrides objects in it are merged with those of config.json, all else replaces what is there. */
  constructor(source: ModelSource, overrides: JsonObject) {
    this.#source = source;
    this.#overrides = overrides;
  }

  get path(): string {
    return this.#source.path;
  }

  get note(): string | null {
    return this.#source.note ?? null;
  }

  read(name: ModelFileName): ModelText | null {
    const text = this.#source.read(name);
    if (text === null || name !== 'config.json') return text;
    const merged = merge(parseModelJson(text, object, 'an object'), this.#overrides);
    return { path: `${text.path} with --hf-overrides`, text: JSON.stringify(merged) };
  }

  readBytes(name: typeof SENTENCEPIECE_FILE): ModelBytes | null {
    return this.#source.readBytes(name);
  }

  openCheckpoint(): Checkpoint {
    return this.#source.openCheckpoint();
  }

  fingerprint(): string {
    const hash = createHash('sha256').update(this.#source.fingerprint());
    return hash.update(JSON.stringify(this.#overrides)).digest('hex');
  }
}

function merge(fields: JsonObject, overrides: JsonObject): JsonObject {
  const merged = Object.entries(overrides).map(([name, value]): [string, unknown] => {
    const [inner, change] = [object.safeParse(fields[name]), object.safeParse(value)];
    return [name, inner.success && change.success ? merge(inner.data, change.data) : value];
  });
  return { ...fields, ...Object.fromEntries(merged) };
}
