// Granite with experts, all of them in one tensor, and in some beside an MLP for every token. Granite 4 has no experts in its small
// releases, only that MLP; those whose layers have a state in the place of keys and values are not served (IBM, 2024 and 2025).

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import type { Block, LayerContext, LoadLayer } from '../layers/layer.ts';
import { loadMixture, SharedExpert } from '../layers/mixture.ts';
import { fusedGatedMlp, gatedMlp } from '../layers/mlp.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import type { ConfigFile, ModelConfig } from '../model-config.ts';
import { readGranite } from './granite.ts';

const HYBRID = 'GraniteMoeHybridForCausalLM';

export const graniteMoe: Architecture = {
  architectures: ['GraniteMoeForCausalLM', 'GraniteMoeSharedForCausalLM', HYBRID],
  readConfig,
  load: (context) => loadDecoder(context, { layer }),
};

const ownFields = z.looseObject({
  num_local_experts: z.int().nonnegative().nullish(),
  num_experts_per_tok: z.int().nonnegative().nullish(),
  shared_intermediate_size: z.int().nonnegative().nullish(),
  layer_types: z.array(z.string()).nullish(),
  position_embedding_type: z.string().nullish(),
});

/** In released files, and in those that transformers 5 writes. */
const ATTENTION: readonly string[] = ['attention', 'full_attention'];

function readConfig(file: ConfigFile): ModelConfig {
  const { path } = file;
  const own = checkModelJson(path, file.json, ownFields);
  const other = own.layer_types?.find((type) => !ATTENTION.includes(type));
  if (other !== undefined) {
    throw new ModelLoadError(
      `${path}: layers of the type ${other} are not supported, only those with attention: take a release without them, such as ` +
        'granite-4.0-micro',
    );
  }
  // Of the releases with either kind of layer, only those rotate that say so.
  const rotates = file.architecture !== HYBRID || own.position_embedding_type === 'rope';
  const rotating = readGranite({ ...file, json: { ...own, layer_types: null } });
  const config = rotates ? rotating : { ...rotating, layerRopes: rotating.layerRopes.map(() => null) };
  const count = own.num_local_experts ?? 8;
  const sharedIntermediateSize = own.shared_intermediate_size ?? 0;
  if (count === 0) return { ...config, intermediateSize: sharedIntermediateSize };
  const experts = expectExperts(path, {
    count,
    intermediateSize: config.intermediateSize,
    routing: { topK: own.num_experts_per_tok ?? 2, scores: 'softmax', isNormalized: true },
    sharedIntermediateSize,
    layers: config.layerWindows.map(() => true),
  });
  return { ...config, experts };
}

const layer: LoadLayer = (context, index, prefix) =>
  preNormLayer({
    feedForwardName: 'block_sparse_moe',
    feedForward: (own, _index, name) => {
      const { experts } = own.config;
      const shared = () => sharedMlp(own, index, `${prefix}.shared_mlp`);
      if (experts === null) return shared();
      const chosen = loadMixture(own, name, {
        router: `${name}.router.layer`,
        fused: { gateUp: `${name}.input_linear.weight`, down: `${name}.output_linear.weight` },
      });
      return experts.sharedIntermediateSize ? new SharedExpert(chosen, shared()) : chosen;
    },
  })(context, index, prefix);

/** The MLP for every token, gate and up in one tensor, which converters take apart. */
function sharedMlp(context: LayerContext, index: number, prefix: string): Block {
  const { config, weights } = context;
  const intermediateSize = config.experts?.sharedIntermediateSize ?? config.intermediateSize;
  const load = weights.has(`${prefix}.gate_proj`) ? gatedMlp : fusedGatedMlp('input_linear', 'output_linear');
  return load({ ...context, config: { ...config, intermediateSize } }, index, prefix);
}
