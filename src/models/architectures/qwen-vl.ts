// Qwen2-VL, Qwen2.5-VL and Qwen3-VL: of models that see images and films, too, the part that reads text, which is Qwen 2, Qwen 3
// or Qwen3-MoE. Of the three positions that a token has for its rotation, those of text are equal.
// Sources: Qwen Team, "Qwen2.5-VL Technical Report" and "Qwen3-VL Technical Report", 2025.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile } from '../model-config.ts';
import { type PublishedNames, USUAL_NAMES } from '../tensor-names.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { qwen2 } from './qwen2.ts';
import { qwen3 } from './qwen3.ts';
import { qwen3Moe } from './qwen3-moe.ts';

export const qwen2Vl = textOf(qwen2, [
  'Qwen2VLForConditionalGeneration',
  'Qwen2_5_VLForConditionalGeneration',
]);
export const qwen3Vl = textOf(qwen3, ['Qwen3VLForConditionalGeneration']);
export const qwen3VlMoe = textOf(qwen3Moe, ['Qwen3VLMoeForConditionalGeneration']);

/** Older files have the names of a model that only reads. */
const NAMES: PublishedNames = { ...IN_WHOLE, roots: [...IN_WHOLE.roots, ...USUAL_NAMES.roots] };

function textOf(architecture: Architecture, architectures: readonly string[]): Architecture {
  return {
    ...architecture,
    architectures,
    readConfig: (file) => ({ ...architecture.readConfig(readText(file)), tensorNames: NAMES }),
  };
}

const ropes = z.record(z.string(), z.unknown()).nullish();
const schema = z.looseObject({
  text_config: z.unknown().optional(),
  rope_scaling: ropes,
  rope_parameters: ropes,
});

/** The fields of the text part, which older files have beside those of the whole, with a rotation by one position. */
function readText(file: ConfigFile): ConfigFile {
  const whole = checkModelJson(file.path, file.json, schema);
  return withOnePosition(whole.text_config === undefined ? file : textPart(file));
}

/** A rotation by one position in the place of one by three that are equal. */
export function withOnePosition(file: ConfigFile): ConfigFile {
  const json = checkModelJson(file.path, file.json, schema);
  return {
    ...file,
    json: { ...json, rope_scaling: byOne(json.rope_scaling), rope_parameters: byOne(json.rope_parameters) },
  };
}

function byOne(rope: z.output<typeof ropes>): z.output<typeof ropes> {
  if (!rope) return rope;
  const { type, rope_type = type, ...fields } = rope;
  return { ...fields, rope_type: rope_type === 'mrope' ? 'default' : rope_type };
}
