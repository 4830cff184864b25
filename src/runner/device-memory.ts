// What an engine says where a device with memory of its own, or the machine, has too little of it.

import { ConfigError, DeviceMemoryError, HostMemoryError } from '../errors.ts';

export interface MemoryNeed {
  /** "The weights find": it is followed by "no memory on the GPU", or "on this machine". */
  readonly what: string;
  readonly remedy: string;
  /** Where it is memory of the machine, and the remedy is another. */
  readonly hostRemedy?: string;
  /** The option that the remedy is about. */
  readonly param?: string;
}

const RAISE_LIMIT = 'raise the limit of the process (ulimit -v)';

export const FOR_WEIGHTS: MemoryNeed = {
  what: 'the weights of the model find',
  remedy:
    'end what else computes there, serve a smaller model or fewer bits of it (--quantization), cut it over several GPUs ' +
    '(--tensor-parallel-size), or use --device cpu',
  hostRemedy: `end what else runs here, serve a smaller model or fewer bits of it (--quantization), or ${RAISE_LIMIT}`,
};

/** @param givenBytes of the KV cache; null where it has a share of the memory */
export function forKvCache(givenBytes: number | null): MemoryNeed {
  const param = cacheOption(givenBytes);
  const remedy = `lower --${param}`;
  const smaller = givenBytes === null ? ' or --max-num-seqs, give it less by --kv-cache-memory-bytes' : '';
  return { what: 'the KV cache finds', remedy, hostRemedy: `${remedy}${smaller}, or ${RAISE_LIMIT}`, param };
}

/** Of an engine that serves: beside a cache of a given size nothing was computed before, and some rules and adapters need more. */
export function forSteps(givenBytes: number | null): MemoryNeed {
  const remedy = `lower --${cacheOption(givenBytes)}, --max-num-batched-tokens or --max-num-seqs`;
  return { what: 'a step finds', remedy, hostRemedy: `${remedy}, or ${RAISE_LIMIT}` };
}

function cacheOption(givenBytes: number | null): string {
  return givenBytes === null ? 'gpu-memory-utilization' : 'kv-cache-memory-bytes';
}

/** `error`, said so that whoever starts the engine knows what to do. */
export function explained(error: unknown, { what, remedy, hostRemedy = remedy, param }: MemoryNeed): unknown {
  const isOnHost = error instanceof HostMemoryError;
  if (!isOnHost && !(error instanceof DeviceMemoryError)) return error;
  const place = isOnHost ? 'on this machine' : 'on the GPU';
  const message = `${what} no memory ${place}: ${error.message}: ${isOnHost ? hostRemedy : remedy}`;
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
