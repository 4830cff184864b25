// The option `adapter` of the methods of `LLM`: which adapter computes each prompt.

import * as z from 'zod';
import type { InferenceEngine, ServedAdapter } from '../engine/inference-engine.ts';
import { InvalidRequestError } from '../errors.ts';

/** The name of an adapter that is loaded, or an adapter that is loaded when it is first named. */
export type AdapterInput = string | { readonly name: string; readonly path: string };

/** One for all prompts, or one a prompt; null is the model alone. */
export type AdaptersInput = AdapterInput | null | readonly (AdapterInput | null)[];

const name = z.string().min(1);
export const adapterSchema = z.union([name, z.strictObject({ name, path: z.string().min(1) })]).nullish();
export const adaptersSchema = z.union([adapterSchema, z.array(adapterSchema.unwrap())]);

/**
 * The adapters of `numPrompts` prompts, loaded.
 * @throws InvalidRequestError for a name that is not known, or a list of another length; AdapterError and ModelLoadError where
 *   one cannot be loaded.
 */
export async function resolveAdapters(
  engine: InferenceEngine,
  given: AdaptersInput | undefined,
  numPrompts: number,
): Promise<readonly (ServedAdapter | null)[]> {
  const list = Array.isArray(given) ? given : new Array(numPrompts).fill(given ?? null);
  if (list.length !== numPrompts) {
    throw new InvalidRequestError(
      `adapter must be one for all prompts, or one a prompt: there are ${numPrompts} prompts and ${list.length} adapters`,
      { param: 'adapter' },
    );
  }
  const resolved: (ServedAdapter | null)[] = [];
  for (const one of list) resolved.push(await resolveAdapter(engine, one));
  return resolved;
}

export async function resolveAdapter(
  { adapters }: InferenceEngine,
  given: AdapterInput | null | undefined,
): Promise<ServedAdapter | null> {
  if (given === null || given === undefined) return null;
  if (typeof given !== 'string') return adapters.ensure({ ...given, baseModelName: null });
  const adapter = adapters.find(given);
  if (adapter !== null) return adapter;
  throw new InvalidRequestError(
    `no adapter is called ${given}: give { name, path } to load it, or loraModules to new LLM()`,
    { param: 'adapter' },
  );
}
