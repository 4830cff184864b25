// Mixtures of experts of the reference backend: the definition of routing, and of the sum over a token's experts.

import { ShapeError } from '../../errors.ts';
import type { GatedActivation } from '../activation.ts';
import {
  type Expert,
  type ExpertRange,
  type Experts,
  expectExperts,
  firstOfExpertGroup,
  NUM_EXPERT_GROUPS,
  type Routing,
} from '../experts.ts';
import type { Tensor } from '../ops.ts';
import { sumAsTree } from '../sum-tree.ts';
import type { Vector } from '../weights.ts';
import { activate } from './elementwise.ts';
import { gateUp, linear } from './linear.ts';
import { expectTensor, RefTensor, roundToDType } from './ref-tensor.ts';
import { expectVector } from './vector.ts';

export class RefExperts implements Experts {
  readonly total: number;
  readonly k: number;
  readonly n: number;
  readonly inputDType: Experts['inputDType'];
  readonly experts: readonly Expert[];
  readonly routing: Routing;
  readonly activation: GatedActivation;
  readonly first: number;

  constructor(experts: readonly Expert[], routing: Routing, activation: GatedActivation, range: ExpertRange) {
    const { total, k, n, inputDType } = expectExperts(experts, routing, activation, range);
    this.total = total;
    this.k = k;
    this.n = n;
    this.inputDType = inputDType;
    this.experts = experts;
    this.first = range.first;
    this.routing = routing;
    this.activation = activation;
  }
}

/** x [tokens, k] -> f32 [tokens, n]: the weighted outputs of each token's experts, of those that are here, summed by groups. */
export function experts(x: Tensor, logits: Tensor, mixture: Experts): RefTensor {
  if (!(mixture instanceof RefExperts)) throw new ShapeError('experts', 'experts of this backend', 'others');
  const { total, k, n, inputDType, routing, activation, first } = mixture;
  const input = expectTensor('experts', 'x', x, { cols: k, dtype: inputDType });
  const scores = expectTensor('experts', 'logits', logits, { rows: x.rows, cols: total, dtype: 'f32' });
  const out = RefTensor.zeros(x.rows, n, 'f32');
  for (let token = 0; token < x.rows; token++) {
    const row = input.row(token);
    const groups = Array.from({ length: NUM_EXPERT_GROUPS }, () => new Float32Array(n).fill(-0));
    for (const { id, weight } of route(scores.row(token), routing).sort((a, b) => a.id - b.id)) {
      const expert = mixture.experts[id - first];
      if (expert === undefined) continue;
      const group = groups.findIndex((_, index) => id < firstOfExpertGroup(total, index + 1));
      const sum = groups[group]!;
      const [ofInput, ofOutput] = routing.weighsInputs ? [weight, 1] : [1, weight];
      const seen = roundToDType(
        new RefTensor(
          row.map((number) => ofInput * number),
          1,
          k,
          inputDType,
        ),
      );
      const output = linear(between(seen, expert, activation), expert.down);
      for (const [i, value] of output.data.entries()) sum[i] = sum[i]! + ofOutput * value;
    }
    out.row(token).set(groups[0]!.map((_, i) => sumAsTree(groups.map((group) => group[i]!))));
  }
  return out;
}

/** What an expert multiplies last. */
function between(x: RefTensor, expert: Expert, activation: GatedActivation): RefTensor {
  if ('gateUp' in expert) return gateUp(x, expert.gateUp, activation);
  if (activation === 'clamped_swiglu') throw new Error('this activation is that of a gate');
  return activate(linear(x, expert.up), activation, expert.down.inputDType);
}

interface Routed {
  readonly id: number;
  readonly weight: number;
}

/** The experts of one token, the best first. */
export function route(logits: Float32Array, routing: Routing): Routed[] {
  const { topK, bias, groups, isNormalized, scale = 1, factors, nearness } = routing;
  const scores = scoresOf(logits, routing.scores);
  const choices = withBias(scores, bias);
  const ids = Array.from(choices, (_, id) => id);
  const isOpen = groups ? openGroups(choices, groups) : () => true;
  const chosen = best(ids.filter(isOpen), choices).slice(0, topK);
  if (nearness) shareAmongNear(logits, chosen, nearness, scores);
  const sum = chosen.reduce((total, id) => total + scores[id]!, 0);
  const factor = isNormalized ? scale / sum : scale;
  const factorOf = factors ? expectVector('experts', 'factors', factors, scores.length) : null;
  return chosen.map((id) => ({ id, weight: Math.fround(scores[id]! * (factor * (factorOf?.[id] ?? 1))) }));
}

function scoresOf(logits: Float32Array, kind: Routing['scores']): Float64Array {
  const values = Float64Array.from(logits);
  if (kind === 'sigmoid') return values.map((logit) => 1 / (1 + Math.exp(-logit)));
  const largest = values.reduce((most, logit) => Math.max(most, logit), -Infinity);
  const weights = values.map((logit) => Math.exp(logit - largest));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** Changes the scores of the chosen, of which the best is the first. */
function shareAmongNear(
  logits: Float32Array,
  chosen: readonly number[],
  nearness: number,
  scores: Float64Array,
): void {
  for (const [rank, id] of chosen.entries()) {
    const [best, before] = [logits[id]!, chosen.slice(0, rank)];
    const isFar = (logit: number) => (best - logit) / Math.max(Math.abs(logit), best) > nearness;
    const sum = logits.reduce(
      (total, logit, other) =>
        isFar(logit) || before.includes(other) ? total : total + Math.exp(logit - best),
      0,
    );
    scores[id] = 1 / sum;
  }
}

function withBias(scores: Float64Array, bias: Vector | null | undefined): Float64Array {
  if (!bias) return scores;
  const values = expectVector('experts', 'bias', bias, scores.length);
  return scores.map((score, id) => score + values[id]!);
}

/** Whether an expert is in one of the best groups. */
function openGroups(
  choices: Float64Array,
  { count, kept, best: numBest }: NonNullable<Routing['groups']>,
): (id: number) => boolean {
  const size = choices.length / count;
  const sums = Float64Array.from({ length: count }, (_, group) => {
    const members = Array.from({ length: size }, (__, i) => group * size + i);
    return best(members, choices)
      .slice(0, numBest)
      .reduce((sum, id) => sum + choices[id]!, 0);
  });
  const open = best(
    Array.from(sums, (_, group) => group),
    sums,
  ).slice(0, kept);
  return (id) => open.includes(Math.floor(id / size));
}

/** `ids` by falling value; equal ones keep their order. */
function best(ids: readonly number[], values: Float64Array): number[] {
  return ids.toSorted((a, b) => values[b]! - values[a]!);
}
