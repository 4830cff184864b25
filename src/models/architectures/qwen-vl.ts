// Qwen2-VL, Qwen2.5-VL and Qwen3-VL: Qwen 2, Qwen 3 or Qwen3-MoE, to which tokens of images lie in a plane, with an encoder.
// Sources: Wang et al., "Qwen2-VL", 2024; Qwen Team, "Qwen2.5-VL Technical Report" and "Qwen3-VL Technical Report", 2025.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile, VisionConfig } from '../model-config.ts';
import { type PublishedNames, USUAL_NAMES } from '../tensor-names.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { loadQwen2Vision, loadQwen3Vision, loadQwen25Vision } from '../vision/qwen.ts';
import {
  readQwen2Vision,
  readQwen3Vision,
  readQwen25Vision,
  readRopeSections,
} from '../vision/qwen-config.ts';
import { qwen2 } from './qwen2.ts';
import { qwen3 } from './qwen3.ts';
import { qwen3Moe } from './qwen3-moe.ts';

export const qwen2Vl = seeing(qwen2, 'Qwen2VLForConditionalGeneration', {
  readVision: readQwen2Vision,
  loadImageEncoder: loadQwen2Vision,
  sections: { alternate: false, usual: [16, 24, 24] },
});

export const qwen25Vl = seeing(qwen2, 'Qwen2_5_VLForConditionalGeneration', {
  readVision: readQwen25Vision,
  loadImageEncoder: loadQwen25Vision,
  sections: { alternate: false, usual: [16, 24, 24] },
});

const QWEN3_SIGHT: Sight = {
  readVision: readQwen3Vision([8, 16, 24]),
  loadImageEncoder: loadQwen3Vision,
  sections: { alternate: true, usual: [24, 20, 20] },
};

export const qwen3Vl = seeing(qwen3, 'Qwen3VLForConditionalGeneration', QWEN3_SIGHT);
export const qwen3VlMoe = seeing(qwen3Moe, 'Qwen3VLMoeForConditionalGeneration', QWEN3_SIGHT);

/** What makes a model of text one that sees. */
interface Sight extends Required<Pick<Architecture, 'loadImageEncoder'>> {
  readonly readVision: (file: ConfigFile) => VisionConfig | null;
  /** How pairs turn where config.json does not say it. */
  readonly sections: {
    readonly alternate: boolean;
    readonly usual: readonly [positions: number, lines: number, columns: number];
  };
}

/** Older files have the names of a model that only reads. */
const NAMES: PublishedNames = { ...IN_WHOLE, roots: [...IN_WHOLE.roots, ...USUAL_NAMES.roots] };

function seeing(text: Architecture, architecture: string, sight: Sight): Architecture {
  const { readVision, loadImageEncoder, sections } = sight;
  return {
    ...text,
    architectures: [architecture],
    readConfig: (file) => {
      const vision = readVision(file);
      const part = readText(file);
      const config = text.readConfig(withOnePosition(part));
      const ropeSections = vision && readRopeSections(part, config, sections.alternate, sections.usual);
      return { ...config, tensorNames: NAMES, vision, ropeSections };
    },
    loadImageEncoder,
  };
}

const ropes = z.record(z.string(), z.unknown()).nullish();
const schema = z.looseObject({
  text_config: z.unknown().optional(),
  rope_scaling: ropes,
  rope_parameters: ropes,
});

/** The fields of the text part, which older files have beside those of the whole. */
function readText(file: ConfigFile): ConfigFile {
  const whole = checkModelJson(file.path, file.json, schema);
  return whole.text_config === undefined ? file : textPart(file);
}

/** A rotation by one position in the place of one by three. */
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
