// The encoders of images that svc reads from GGUF files. To add one is to add its line here.

import type { EncoderKind } from './encoder-kind.ts';
import { gemma4 } from './gemma4.ts';
import { internVl } from './internvl.ts';
import { pixtral } from './pixtral.ts';
import { qwen2, qwen3, qwen25 } from './qwen.ts';
import { gemma3, idefics3, lfm2 } from './siglip.ts';

/** By `clip.projector_type`. */
export const ENCODER_KINDS: ReadonlyMap<string, EncoderKind> = new Map([
  ['gemma3', gemma3],
  ['gemma4v', gemma4],
  ['idefics3', idefics3],
  ['internvl', internVl],
  ['lfm2', lfm2],
  ['pixtral', pixtral],
  ['qwen2vl_merger', qwen2],
  ['qwen2.5vl_merger', qwen25],
  ['qwen3vl_merger', qwen3],
]);
