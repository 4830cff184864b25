// Reads generation_config.json: sampling defaults of the model, and the tokens that end an answer.

import { join } from 'node:path';
import { z } from 'zod';
import { ConfigError } from '../errors.ts';
import { readJsonIfPresent } from './json-file.ts';

export interface GenerationConfig {
  /** For requests that leave these fields out, in the protocol's spelling. */
  readonly sampling: {
    readonly temperature?: number;
    readonly top_p?: number;
    readonly top_k?: number;
    readonly min_p?: number;
    readonly max_tokens?: number;
  };
  readonly eosTokenIds: readonly number[];
  /** Defaults that the file sets and svc cannot apply yet, as `field value`, for a warning at start. */
  readonly notApplied: readonly string[];
}

const schema = z.object({
  temperature: z.number().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  max_new_tokens: z.int().min(1).nullish(),
  repetition_penalty: z.number().positive().nullish(),
  eos_token_id: z.union([z.int(), z.array(z.int())]).nullish(),
});

/** What the library that writes these files would do anyway: such a value is no choice of the model's makers. */
const LIBRARY_DEFAULTS: Readonly<Record<string, number>> = { temperature: 1, top_p: 1, top_k: 50, min_p: 0 };

/**
 * @param source `auto`: the model's own file, which may be missing; `svc`: only its end tokens; else a folder.
 * @throws ModelLoadError when the file is malformed; ConfigError when the folder named by the user has none.
 */
export function readGenerationConfig(folder: string, source: string): GenerationConfig {
  const isNamed = source !== 'auto' && source !== 'svc';
  const path = join(isNamed ? source : folder, 'generation_config.json');
  const fields = readJsonIfPresent(path, schema);
  if (fields === null && isNamed) {
    throw new ConfigError(
      `--generation-config ${source}: there is no ${path}; name a folder that holds generation_config.json, ` +
        'or auto, or svc',
      { param: 'generation-config' },
    );
  }
  if (fields === null) return { sampling: {}, eosTokenIds: [], notApplied: [] };
  const eosTokenIds = [fields.eos_token_id ?? []].flat();
  if (source === 'svc') return { sampling: {}, eosTokenIds, notApplied: [] };
  const { temperature, top_p, top_k, min_p, max_new_tokens: max_tokens, repetition_penalty } = fields;
  const penalised = repetition_penalty && repetition_penalty !== 1;
  return {
    sampling: chosen({ temperature, top_p, top_k, min_p, max_tokens }),
    eosTokenIds,
    notApplied: penalised ? [`repetition_penalty ${repetition_penalty}`] : [],
  };
}

function chosen(fields: Record<string, number | null | undefined>): GenerationConfig['sampling'] {
  const set = Object.entries(fields).filter(
    ([field, value]) => value !== null && value !== undefined && value !== LIBRARY_DEFAULTS[field],
  );
  return Object.fromEntries(set);
}
