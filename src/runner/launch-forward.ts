// Launches the forward pass of a step, with the mark at which the next step is planned.

import type { ForwardInputs, Model } from '../models/model.ts';
import type { KvCache, Ops, Pending, Scope, Tensor } from '../ops/ops.ts';

export interface LaunchedForward {
  /** Owns `hidden`; whoever samples or pools closes it. */
  readonly scope: Scope;
  readonly hidden: Tensor;
  /** Read once so many of the layers have run as `planPoint` says. */
  readonly planPoint: Pending<void>;
}

/** @param planPoint share of the layers */
export function launchForward(
  ops: Ops,
  model: Model,
  cache: KvCache,
  inputs: ForwardInputs,
  planPoint: number,
): LaunchedForward {
  const scope = ops.openScope();
  const planLayer = Math.floor(model.config.numLayers * planPoint);
  let planMark = ops.mark();
  const onLayer = (layer: number): void => {
    if (layer + 1 === planLayer) planMark = ops.mark();
  };
  const hidden = model.forward({ ...inputs, onLayer }, cache);
  return { scope, hidden, planPoint: planMark };
}
