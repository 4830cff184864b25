// What a release says for a KV cache in 8 bits. Keys and values are kept in the format that `--kv-cache-dtype` says, and where that has
// scales, they are those of the tokens.
// Source: vLLM, the releases of RedHatAI and of NVIDIA with `kv_cache_scheme`.

import type { Checkpoint } from '../source/checkpoint.ts';

/** Beside a projection, or beside the attention that it is in. */
const SCALES = ['q_scale', 'k_scale', 'v_scale', 'kv_scale', 'output_scale'];

export function leaveCacheScalesUnread(checkpoint: Checkpoint, projection: string): void {
  const module = projection.slice(0, projection.lastIndexOf('.'));
  for (const scale of SCALES) {
    checkpoint.leaveUnread(`${projection}.${scale}`);
    checkpoint.leaveUnread(`${module}.${scale}`);
  }
}
