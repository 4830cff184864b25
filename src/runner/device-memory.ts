// What an engine says where a device with memory of its own has too little of it.

import { ConfigError, DeviceMemoryError } from '../errors.ts';

export interface MemoryNeed {
  /** "The weights find": it is followed by "no memory on the GPU". */
  readonly what: string;
  readonly remedy: string;
  /** The option that the remedy is about. */
  readonly param?: string;
}

export const FOR_WEIGHTS: MemoryNeed = {
  what: 'the weights of the model find',
  remedy:
    'end what else computes there, serve a smaller model or fewer bits of it (--quantization), cut it over several GPUs ' +
    '(--tensor-parallel-size), or use --device cpu',
};

/** @param givenBytes of the KV cache; null where it has a share of the memory */
export function forKvCache(givenBytes: number | null): MemoryNeed {
  const param = cacheOption(givenBytes);
  return { what: 'the KV cache finds', remedy: `lower --${param}`, param };
}

/** Of an engine that serves: beside a cache of a given size nothing was computed before, and some rules and adapters need more. */
export function forSteps(givenBytes: number | null): MemoryNeed {
  const remedy = `lower --${cacheOption(givenBytes)}, --max-num-batched-tokens or --max-num-seqs`;
  return { what: 'a step finds', remedy };
}

function cacheOption(givenBytes: number | null): string {
  return givenBytes === null ? 'gpu-memory-utilization' : 'kv-cache-memory-bytes';
}

/** `error`, said so that whoever starts the engine knows what to do. */
export function explained(error: unknown, { what, remedy, param }: MemoryNeed): unknown {
  if (!(error instanceof DeviceMemoryError)) return error;
  const message = `${what} no memory on the GPU: ${error.message}: ${remedy}`;
  return new ConfigError(message, { ...(param !== undefined && { param }), cause: error });
}

/** @throws ConfigError where `take` finds too little memory. */
export async function withMemoryFor<T>(need: MemoryNeed, take: () => T | Promise<T>): Promise<T> {
  try {
    return await take();
  } catch (error) {
    throw explained(error, need);
  }
}
