// Which prefill and which decode instance a request goes to, and whether it needs a prefill instance at all. forwarder.ts
// asks it for each attempt.

import type { PolicyName } from '../config/proxy-options.ts';
import type { Instance } from './instance.ts';
import type { Instances } from './instances.ts';
import type { Job } from './job.ts';
import { makePolicy } from './policies/make-policy.ts';
import type { Policy } from './policies/policy.ts';

/** Instances that a request has already been to, and how often. */
export type Tried = ReadonlyMap<Instance, number>;

/** Even the only instance is not asked more often for one answer. */
const MAX_TRIES = 2;

export class Router {
  readonly #instances: Instances;
  readonly #threshold: number;
  readonly #forPrefill: Policy;
  readonly #forDecode: Policy;

  /** @param threshold tokens from which a prompt is worth the way over a prefill instance. */
  constructor(instances: Instances, policy: PolicyName, threshold: number) {
    this.#instances = instances;
    this.#threshold = threshold;
    this.#forPrefill = makePolicy(policy);
    this.#forDecode = makePolicy(policy);
  }

  /** Whether a request could be answered now. */
  get canServe(): boolean {
    return this.#decoders().length > 0;
  }

  /** @param like the instance whose answer is to be continued: only one with the same model will do. */
  pickDecode(job: Job, tried: Tried, like: Instance | null = null): Instance | null {
    const able = this.#decoders().filter(
      (instance) => like === null || (instance.model === like.model && instance.isOurs),
    );
    return pickFrom(ofModel(able, job.model), tried, this.#forDecode, job);
  }

  /** Null where the decode instance does better alone, or has to. */
  pickPrefill(job: Job, decode: Instance, tried: Tried): Instance | null {
    if (!job.mayPrefillElsewhere || decode.type === 'P') return null;
    const { numTokens } = job.prompt;
    if (numTokens < this.#threshold) return null;
    const known = this.#forDecode.knownTokens(decode, job.prompt);
    if (known > 0 && numTokens - known < this.#threshold) return null;
    const able = this.#instances.ready(
      ({ type, model }) =>
        type === 'P' && (model === null || decode.model === null || model === decode.model),
    );
    return pickFrom(able, tried, this.#forPrefill, job);
  }

  /** Both have computed the prompt, or received it. */
  served(job: Job, prefill: Instance | null, decode: Instance): void {
    if (prefill !== null) this.#forPrefill.served(prefill, job.prompt);
    this.#forDecode.served(decode, job.prompt);
  }

  /** Without a decode instance, those that can do both serve alone. */
  #decoders(): Instance[] {
    const decoders = this.#instances.ready(({ type }) => type === 'D');
    return decoders.length > 0 ? decoders : this.#instances.ready(({ mayDecode }) => mayDecode);
  }
}

/** Those that announce the model that is asked for; where none does, the instance is to judge the name. */
function ofModel(instances: Instance[], model: string | null): Instance[] {
  const named = model === null ? [] : instances.filter((instance) => instance.model === model);
  return named.length > 0 ? named : instances;
}

/** New ones before tried ones, sound ones before suspects. */
function pickFrom(able: Instance[], tried: Tried, policy: Policy, { prompt }: Job): Instance | null {
  const triesOf = (instance: Instance): number => tried.get(instance) ?? 0;
  const fresh = tried.size === 0 ? able : able.filter((instance) => triesOf(instance) === 0);
  const again = (): Instance[] => able.filter((instance) => triesOf(instance) < MAX_TRIES);
  const candidates = fresh.length > 0 ? fresh : again();
  const sound = candidates.filter(({ isSuspect }) => !isSuspect);
  const best = sound.length > 0 ? sound : candidates;
  return best.length === 0 ? null : policy.pick(best, prompt);
}
