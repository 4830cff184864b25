// Feed-forwards of experts: a router chooses some of them for each token, and they may be joined by one that computes every token.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Experts } from '../../ops/experts.ts';
import type { Tensor } from '../../ops/ops.ts';
import type { Vector } from '../../ops/weights.ts';
import type { FusedNames } from '../weights/stacked-experts.ts';
import type { ExpertNames } from '../weights/weight-reader.ts';
import type { Block, LayerContext, LoadBlock } from './layer.ts';
import type { ColumnParallelLinear } from './linear.ts';
import { gatedMlp } from './mlp.ts';
import type { Step } from './step.ts';

const USUAL_NAMES: ExpertNames = { gate: 'gate_proj', up: 'up_proj', down: 'down_proj' };

/** Experts in the layers that config.json says have them, one MLP in the others. */
export function expertsOrMlp(experts: LoadBlock): LoadBlock {
  return (context, layer, prefix) => {
    const load = context.config.experts?.layers[layer] ? experts : gatedMlp;
    return load(context, layer, prefix);
  };
}

interface MixtureParts {
  /** Of an expert by itself. */
  readonly names?: ExpertNames;
  /** Numbers of a token that an expert sees; left out, all of the stream. */
  readonly width?: number;
  /** Of the choice, one number for each expert. */
  readonly bias?: Vector | null;
  readonly router?: string;
  /** [experts] on the weights of the chosen. */
  readonly factors?: Vector | null;
  /** Of all experts in one. */
  readonly fused?: FusedNames;
}

/** The router `prefix.gate`, and the experts `prefix.experts.0` and so on, or all of them in one tensor. */
export function loadMixture(
  { config, weights }: LayerContext,
  prefix: string,
  {
    names = USUAL_NAMES,
    width = config.hiddenSize,
    bias = null,
    factors = null,
    router = `${prefix}.gate`,
    fused = fusedAt(`${prefix}.experts`),
  }: MixtureParts = {},
): Mixture {
  const { count, intermediateSize, routing } = config.experts!;
  const { hiddenSize, activation } = config;
  const isFused = weights.hasFusedExperts(fused);
  const parts = Array.from({ length: count }, (_, index) =>
    isFused
      ? weights.fusedExpert(fused, { count, hiddenSize: width, intermediateSize }, index)
      : weights.expert(expertAt(`${prefix}.experts.${index}`, names), width, intermediateSize),
  );
  const experts = weights.mixture(parts, { ...routing, bias, factors }, activation);
  return new Mixture(
    weights.unquantizedColumn([{ name: router, n: count, shared: null }], hiddenSize),
    experts,
  );
}

/** The names of all experts under `prefix`, as transformers 5 keeps them. */
export function fusedAt(prefix: string): FusedNames {
  return { gateUp: `${prefix}.gate_up_proj`, down: `${prefix}.down_proj` };
}

/** The names of the projections of the expert `prefix`. */
export function expertAt(prefix: string, { gate, up, down } = USUAL_NAMES): ExpertNames {
  return { gate: gate && `${prefix}.${gate}`, up: `${prefix}.${up}`, down: `${prefix}.${down}` };
}

/** One expert for every token, which counts as much as the sigmoid of its gate says: a mixture of one. Each rank has all of it. */
export function loadGatedExpert(
  { config, weights }: LayerContext,
  prefix: string,
  { gateName, intermediateSize }: { readonly gateName: string; readonly intermediateSize: number },
): Mixture {
  const { hiddenSize, activation } = config;
  const expert = weights.expert(expertAt(prefix), hiddenSize, intermediateSize);
  const routing = { topK: 1, scores: 'sigmoid', isNormalized: false } as const;
  const experts = weights.mixture([expert], routing, activation, false);
  return new Mixture(
    weights.unquantizedColumn([{ name: gateName, n: 1, shared: null }], hiddenSize),
    experts,
    false,
  );
}

/** The sum of weight * expert(h) over the experts that router(h) chooses. */
export class Mixture implements Block {
  readonly #router: ColumnParallelLinear;
  readonly #experts: Experts;
  readonly #isShared: boolean;

  /** @param isShared whether ranks share the experts; else each has all. */
  constructor(router: ColumnParallelLinear, experts: Experts, isShared = true) {
    this.#router = router;
    this.#experts = experts;
    this.#isShared = isShared;
  }

  get inputDType(): ComputeDType {
    return this.#experts.inputDType;
  }

  get routerDType(): ComputeDType {
    return this.#router.inputDType;
  }

  /** @param routed what the router sees, [tokens, hidden] in `routerDType`; left out, h. */
  apply(step: Step, h: Tensor, routed = h): Tensor {
    const sum = step.ops.experts(h, this.#router.apply(step, routed), this.#experts);
    if (this.#isShared) step.ops.sumRanks(sum);
    return sum;
  }

  addTo(x: Tensor, step: Step, h: Tensor): void {
    step.ops.addScaled(x, this.apply(step, h), 1);
  }
}

/** Experts that see a token narrowed by a product, whose sum another one widens; the router sees all of the token. */
export class LatentMixture implements Block {
  readonly #narrow: ColumnParallelLinear;
  readonly #experts: Mixture;
  readonly #widen: ColumnParallelLinear;

  /** @param narrow as `widen`, whole in each rank */
  constructor(narrow: ColumnParallelLinear, experts: Mixture, widen: ColumnParallelLinear) {
    this.#narrow = narrow;
    this.#experts = experts;
    this.#widen = widen;
  }

  get inputDType(): ComputeDType {
    return this.#narrow.inputDType;
  }

  apply(step: Step, h: Tensor): Tensor {
    const { ops } = step;
    const latent = ops.cast(this.#narrow.apply(step, h), this.#experts.inputDType);
    const sum = this.#experts.apply(step, latent, h);
    return this.#widen.apply(step, ops.cast(sum, this.#widen.inputDType));
  }

  addTo(x: Tensor, step: Step, h: Tensor): void {
    step.ops.addScaled(x, this.apply(step, h), 1);
  }
}

/** The sum of two blocks: experts that are chosen, and one that is shared by all tokens. */
export class SharedExpert implements Block {
  readonly #chosen: Block;
  readonly #shared: Block;

  constructor(chosen: Block, shared: Block) {
    this.#chosen = chosen;
    this.#shared = shared;
  }

  get inputDType(): ComputeDType {
    return this.#chosen.inputDType;
  }

  apply(step: Step, h: Tensor): Tensor {
    const sum = this.#chosen.apply(step, h);
    this.#shared.addTo(sum, step, h);
    return sum;
  }

  addTo(x: Tensor, step: Step, h: Tensor): void {
    this.#chosen.addTo(x, step, h);
    this.#shared.addTo(x, step, h);
  }
}
