// When the next step is planned: as late as can be, so that requests and aborts that arrive while a step runs still
// count for the next one, and early enough that its forward pass is launched before the kernels run out of work.

/** Planning starts when the rest of the running step takes this many times as long as planning took last. */
const MARGIN = 4;

export class PlanPoint {
  #layerShare = 0;
  #lastFinishedAt = 0;

  /** Share of a step's layers, from 0 to 1, after which the next step is planned. */
  get layerShare(): number {
    return this.#layerShare;
  }

  /**
   * Called once a step has been planned and launched, and the one before it is finished.
   * @param planMs what planning and launching took
   * @param isBackToBack whether the step before was in flight meanwhile: only then did the kernels run without a pause
   */
  update(planMs: number, isBackToBack: boolean, now = performance.now()): void {
    const stepMs = now - this.#lastFinishedAt;
    this.#lastFinishedAt = now;
    if (isBackToBack) this.#layerShare = Math.max(0, 1 - (MARGIN * planMs) / stepMs);
  }
}
