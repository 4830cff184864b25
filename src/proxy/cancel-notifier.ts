// Tells instances to forget a transfer. No request waits for that, and no more than a few hundred notices are under way.

import type { Instance } from './instance.ts';
import type { ProxyMetrics } from './metrics.ts';

/** Beyond these notices are dropped: the deadlines of the instances free what they hold. */
const MAX_UNDER_WAY = 512;

export class CancelNotifier {
  readonly #metrics: ProxyMetrics;
  readonly #deadlineMs: number;
  #numUnderWay = 0;

  constructor(metrics: ProxyMetrics, deadlineMs: number) {
    this.#metrics = metrics;
    this.#deadlineMs = deadlineMs;
  }

  notify(instance: Instance, requestId: string, authorization: string | undefined): void {
    // One that is only missed may live, and hold what nobody will ask for.
    if (instance.state === 'gone' && !instance.isMissed) return;
    if (this.#numUnderWay >= MAX_UNDER_WAY) {
      this.#metrics.cancels.inc({ outcome: 'dropped' });
      return;
    }
    this.#numUnderWay += 1;
    this.#post(instance, requestId, authorization)
      .then(
        () => this.#metrics.cancels.inc({ outcome: 'told' }),
        () => this.#metrics.cancels.inc({ outcome: 'failed' }),
      )
      .finally(() => {
        this.#numUnderWay -= 1;
      });
  }

  async #post({ pool }: Instance, requestId: string, authorization: string | undefined): Promise<void> {
    const { body } = await pool.request({
      method: 'POST',
      path: '/kv_transfer/cancel',
      headers: { 'content-type': 'application/json', ...(authorization !== undefined && { authorization }) },
      body: JSON.stringify({ request_id: requestId }),
      signal: AbortSignal.timeout(this.#deadlineMs),
    });
    await body.dump();
  }
}
