// Qwen3.5: the layers of Qwen3-Next with other cuts of their projections, with an MLP or with experts; to most of them tokens of images lie
// in a plane, with the encoder of Qwen3-VL.
// Source: Qwen Team, "Qwen3.5: Towards Native Multimodal Agents", 2026.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import type { DeltaProjections } from '../layers/gated-delta-net.ts';
import type { LayerContext, LoadBlock } from '../layers/layer.ts';
import { expertsOrMlp } from '../layers/mixture.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { rmsNormAround1 } from '../layers/norm.ts';
import type { ConfigFile, ModelConfig } from '../model-config.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { loadQwen3Vision } from '../vision/qwen.ts';
import { readQwen3Vision, readRopeSections } from '../vision/qwen-config.ts';
import { withOnePosition } from './qwen-vl.ts';
import { withShared } from './qwen2-moe.ts';
import { hybridLayer, readHybrid, valuesOfAllHeads, withSharedExperts } from './qwen3-next.ts';

export const qwen35 = architecture(
  ['Qwen3_5ForConditionalGeneration', 'Qwen3_5ForCausalLM'],
  (file) => readHybrid(file),
  gatedMlp,
);

const expertFields = z.looseObject({ moe_intermediate_size: z.unknown() });

export const qwen35Moe = architecture(
  ['Qwen3_5MoeForConditionalGeneration', 'Qwen3_5MoeForCausalLM'],
  (file) => {
    const fields = checkModelJson(file.path, file.json, expertFields);
    // No layer has an MLP, and files do not say how wide one would be.
    const json = { intermediate_size: fields.moe_intermediate_size, ...fields };
    return withSharedExperts(file, readHybrid({ ...file, json }));
  },
  expertsOrMlp(withShared),
);

const readVision = readQwen3Vision([]);

function architecture(
  architectures: readonly string[],
  readText: (file: ConfigFile) => ModelConfig,
  feedForward: LoadBlock,
): Architecture {
  return {
    architectures,
    readConfig: (file) => {
      const isWhole = file.architecture.endsWith('ForConditionalGeneration');
      if (!isWhole) return readText(withOnePosition(file));
      const vision = readVision(file);
      const part = textPart(file);
      const config = readText(withOnePosition(part));
      const ropeSections = vision && readRopeSections(part, config, true, [11, 11, 10]);
      return { ...config, tensorNames: IN_WHOLE, vision, ropeSections };
    },
    loadImageEncoder: loadQwen3Vision,
    load: (context) =>
      loadDecoder(context, { layer: hybridLayer(projections, feedForward), norm: rmsNormAround1 }),
  };
}

/** What goes into the convolution in one tensor, the others in one each. */
function projections(context: LayerContext, prefix: string): DeltaProjections {
  const { config, weights } = context;
  const n = config.recurrent!.delta!.heads;
  const gates = [
    { name: `${prefix}.in_proj_b`, n },
    { name: `${prefix}.in_proj_a`, n },
  ];
  return {
    values: valuesOfAllHeads(context, prefix),
    gates: weights.unquantizedColumn(gates, config.hiddenSize),
  };
}
