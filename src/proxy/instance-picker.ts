// Picks the decode instance of a request, and the prefill instance where it is worth one.

import type { PolicyName } from '../config/proxy-options.ts';
import type { Attempts } from './attempts.ts';
import type { ClientRequest } from './client-request.ts';
import type { Instance } from './instance.ts';
import type { Instances } from './instances.ts';
import { makePolicy } from './policies/make-policy.ts';
import type { Policy } from './policies/policy.ts';
import type { RequestBody } from './request-body.ts';

export class InstancePicker {
  readonly #instances: Instances;
  readonly #threshold: number;
  readonly #forPrefill: Policy;
  readonly #forDecode: Policy;

  /** @param threshold tokens of the shortest prompt that a prefill instance computes. */
  constructor(instances: Instances, policy: PolicyName, threshold: number) {
    this.#instances = instances;
    this.#threshold = threshold;
    this.#forPrefill = makePolicy(policy);
    this.#forDecode = makePolicy(policy);
  }

  get canServe(): boolean {
    return this.#decoders().length > 0;
  }

  /** @param like the instance whose stream is to be continued: another one must have the same model. */
  pickDecode({ options: { body }, attempts, losses }: ClientRequest, like: Instance | null): Instance | null {
    const able = this.#decoders().filter((instance) => losses.allow(instance) && continues(instance, like));
    return pickFrom(ofModel(able, body.model), attempts, this.#forDecode, body);
  }

  /** Whether one that cannot be picked just now may be heard of soon. */
  mayComeBack({ attempts, losses }: ClientRequest, like: Instance | null): boolean {
    const missed = this.#instances.missed(({ mayDecode }) => mayDecode);
    const unheard = this.#decoders().filter((instance) => !losses.allow(instance));
    return [...missed, ...unheard].some(
      (instance) => continues(instance, like) && attempts.mayRetry(instance),
    );
  }

  /**
   * Null where the decode instance is faster alone, or has to compute the prompt itself. One that has computed it for another decode
   * instance comes first.
   */
  pickPrefill(
    { options: { body }, losses, prefilledBy }: ClientRequest,
    decode: Instance,
    attempts: Attempts,
  ): Instance | null {
    if (body.prefillFields === null || decode.type === 'P') return null;
    const { numTokens } = body.prompt;
    if (numTokens < this.#threshold) return null;
    const known = this.#forDecode.knownTokens?.(decode, body.prompt) ?? 0;
    if (numTokens - known < this.#threshold) return null;
    const able = this.#instances.ready(
      (instance) => instance.type === 'P' && instance.sharesModel(decode) && losses.allow(instance),
    );
    const again = able.find(
      (instance) => instance === prefilledBy && !instance.isSuspect && !attempts.has(instance),
    );
    return again ?? pickFrom(able, attempts, this.#forPrefill, body);
  }

  /** Both have computed the prompt, or received it so that longer ones can go on from it. */
  served(body: RequestBody, prefill: Instance | null, decode: Instance): void {
    if (prefill !== null) this.#forPrefill.served?.(prefill, body.prompt);
    if (prefill === null || decode.extendsReceived) this.#forDecode.served?.(decode, body.prompt);
  }

  /** Without a decode instance, those that can do both serve alone. */
  #decoders(): Instance[] {
    const decoders = this.#instances.ready(({ type }) => type === 'D');
    return decoders.length > 0 ? decoders : this.#instances.ready(({ mayDecode }) => mayDecode);
  }
}

/** Whether it can go on with a stream of `other`. */
function continues(instance: Instance, other: Instance | null): boolean {
  return other === null || (instance.model === other.model && instance.supportsResume);
}

/** Those that announce the model; where none does, an instance is to judge its name. */
function ofModel(instances: Instance[], model: string | null): Instance[] {
  const named = model === null ? [] : instances.filter((instance) => instance.model === model);
  return named.length > 0 ? named : instances;
}

/** Instances that were not asked yet before others, sound ones before suspects. */
function pickFrom(
  able: Instance[],
  attempts: Attempts,
  policy: Policy,
  { prompt }: RequestBody,
): Instance | null {
  const fresh = able.filter((instance) => !attempts.has(instance));
  const candidates = fresh.length > 0 ? fresh : able.filter((instance) => attempts.mayRetry(instance));
  const sound = candidates.filter(({ isSuspect }) => !isSuspect);
  const best = sound.length > 0 ? sound : candidates;
  return best.length === 0 ? null : policy.pick(best, prompt);
}
