// `rope_parameters` of models whose layers with a window rotate in another way than those without: one set of fields for each kind.

import * as z from 'zod';
import { checkModelJson } from '../util/model-file.ts';
import type { ConfigFile } from './model-config.ts';
import { type RopeFields, ropeFields } from './rope-config.ts';

const schema = z.looseObject({
  rope_parameters: z
    .object({ full_attention: ropeFields.nullish(), sliding_attention: ropeFields.nullish() })
    .nullish(),
});

/** @returns the file as if it said for all layers what it says for those without a window, and the fields of those with one. */
export function byLayerKind(file: ConfigFile): {
  readonly far: ConfigFile;
  readonly near: RopeFields | null;
} {
  const json = checkModelJson(file.path, file.json, schema);
  const { full_attention: far, sliding_attention: near } = json.rope_parameters ?? {};
  return { far: far ? { ...file, json: { ...json, rope_parameters: far } } : file, near: near ?? null };
}
