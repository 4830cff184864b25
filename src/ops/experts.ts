// Mixtures of experts: which weights are the experts of a layer, and how router logits choose among them.
// Source: Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer", 2017; groups and
// the bias of the choice: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024; shares among those that are near: Liu et al., "GRIN:
// GRadient-INformed MoE", 2024.

import { ShapeError } from '../errors.ts';
import type { GatedActivation } from './activation.ts';
import type { ComputeDType } from './dtype.ts';
import type { GateUpWeight, LinearWeight, Vector } from './weights.ts';

/**
 * A token's experts are the `topK` of the best score, the lower id among equals. Each counts as much as its score says.
 */
export interface Routing {
  readonly topK: number;
  /** What a logit becomes: its share of the softmax over all experts, or its sigmoid. */
  readonly scores: 'softmax' | 'sigmoid';
  /** [experts] added to the scores for the choice alone. */
  readonly bias?: Vector | null;
  /** Only experts of the best groups are chosen; left out, there is one group. */
  readonly groups?: RoutingGroups | null;
  /** Whether the scores of the chosen are divided by their sum: with softmax, that is the softmax over the chosen. */
  readonly isNormalized: boolean;
  /** Factor on the weights; left out, 1. */
  readonly scale?: number;
  /** [experts] factor on the weight of each. */
  readonly factors?: Vector | null;
  /**
   * Above 0: the score of a chosen expert, whose logit is b, is its share of the softmax over those with a logit x near it, (b - x) / max(|x|, b)
   * at most this, that were not chosen before it. Left out, scores are shares of all.
   */
  readonly nearness?: number | null;
  /** Whether a weight multiplies what the expert sees, rounded to its format, in the place of what it gives; left out, it does not. */
  readonly weighsInputs?: boolean;
}

/** Experts side by side, in `count` groups of one size; `kept` of them, the best, are chosen from. */
interface RoutingGroups {
  readonly count: number;
  readonly kept: number;
  /** A group is as good as the sum of so many of its best scores. */
  readonly best: number;
}

/**
 * Groups of ids, each of which is summed by itself, in the order of ids; the sums are added as by `sumAsTree`. A group without any
 * expert of a token is -0, which changes no sum. Ranks that have whole subtrees of groups make the same sums.
 */
export const NUM_EXPERT_GROUPS = 8;

/** The first id of a group of `count` experts; that of group `NUM_EXPERT_GROUPS` is the end. */
export function firstOfExpertGroup(count: number, group: number): number {
  return Math.floor((count * group) / NUM_EXPERT_GROUPS);
}

/** Which experts of a layer a rank has. */
export interface ExpertRange {
  /** The id of its first one. */
  readonly first: number;
  /** Of all ranks, each of which the router has a logit for. */
  readonly total: number;
}

/** An MLP: x [tokens, k] -> down(act(gate(x)) * up(x)), or down(act(up(x))) without a gate. */
export type Expert = { readonly down: LinearWeight } & (
  | { readonly gateUp: GateUpWeight }
  | { readonly up: LinearWeight }
);

/** The experts of one layer, all of one shape. */
export interface Experts {
  /** Of all ranks. */
  readonly total: number;
  /** Of x, and of what an expert gives. */
  readonly k: number;
  readonly n: number;
  readonly inputDType: ComputeDType;
}

/** @throws ShapeError where experts differ in shape or format, or the routing asks for experts that are not there. */
export function expectExperts(
  experts: readonly Expert[],
  routing: Routing,
  activation: GatedActivation,
  { first: firstId, total }: ExpertRange,
): Experts {
  const fail = (expected: string, got: string) => new ShapeError('makeExperts', expected, got);
  const [first] = experts;
  if (first === undefined) throw fail('at least one expert', 'none');
  const { k, n: inner, inputDType } = 'gateUp' in first ? first.gateUp : first.up;
  if (activation === 'clamped_swiglu' && 'up' in first)
    throw fail(`experts with a gate for ${activation}`, 'others');
  const { n } = first.down;
  const wanted = shapeOf(first);
  for (const expert of experts) {
    if (shapeOf(expert) !== wanted) throw fail(`experts of ${wanted}`, shapeOf(expert));
  }
  if (first.down.k !== inner || first.down.inputDType !== inputDType)
    throw fail(`down projections of ${inner} numbers in ${inputDType}`, wanted);
  if (firstId < 0 || firstId + experts.length > total)
    throw fail(`ids below ${total}`, `${experts.length} from ${firstId} on`);
  const { topK, bias, groups, factors } = routing;
  if (topK < 1 || topK > total) throw fail(`topK from 1 to ${total}`, `${topK}`);
  if (bias && bias.length !== total) throw fail(`a bias [${total}]`, `[${bias.length}]`);
  if (factors && factors.length !== total) throw fail(`factors [${total}]`, `[${factors.length}]`);
  if (groups) expectGroups(total, topK, groups);
  return { total, k, n, inputDType };
}

function expectGroups(experts: number, topK: number, { count, kept, best }: RoutingGroups): void {
  const size = experts / count;
  if (Number.isInteger(size) && kept >= 1 && kept <= count && kept * size >= topK && best <= size) return;
  const got = `${kept} of ${count} groups, by their best ${best}`;
  throw new ShapeError('makeExperts', `groups of ${experts} experts, with ${topK} to choose`, got);
}

function shapeOf(expert: Expert): string {
  const of = ({ n, k, inputDType }: LinearWeight) => `[${n}, ${k}] ${inputDType}`;
  const inner = 'gateUp' in expert ? `gate and up ${of(expert.gateUp)}` : `up ${of(expert.up)}`;
  return `${inner}, down ${of(expert.down)}`;
}
