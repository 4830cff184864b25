// EXAONE 4: norms behind the blocks as in OLMo 2, and norms of heads. Where some layers have a window, the others know no positions
// (LG AI Research, "EXAONE 4.0: Unified Large Language Models Integrating Non-reasoning and Reasoning Modes", 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { loadAttention } from '../layers/attention.ts';
import { readDecoderConfig } from '../model-config.ts';
import { postNormLayer } from './olmo.ts';

/** One layer of so many has no window; or L and G, for layers with a window and without, which are repeated. */
const ownFields = z.object({
  sliding_window_pattern: z.union([z.int().nonnegative(), z.string().regex(/^[LG]+$/)]).nullish(),
});

export const exaone4: Architecture = {
  architectures: ['Exaone4ForCausalLM'],
  readConfig: (file) => {
    const { sliding_window_pattern } = checkModelJson(file.path, file.json, ownFields);
    return readDecoderConfig(file, (fields) => {
      const window = fields.sliding_window === undefined ? 4096 : fields.sliding_window;
      return {
        normEps: fields.rms_norm_eps ?? 1e-5,
        slidingWindow: window,
        slides: slidesBy(sliding_window_pattern ?? 4, fields.num_hidden_layers),
        hasHeadNorms: true,
        ropeOf: ({ isSliding }, rope) => (window === null || isSliding ? rope : null),
      };
    });
  },
  load: (context) => loadDecoder(context, { layer: postNormLayer(loadAttention) }),
};

/** The last layer has no window, whatever letters say. */
function slidesBy(pattern: number | string, numLayers: number): (layer: number) => boolean {
  if (typeof pattern === 'number') return (layer) => pattern > 0 && (layer + 1) % pattern !== 0;
  return (layer) => layer < numLayers - 1 && pattern[layer % pattern.length] === 'L';
}
