// Carries the event stream of one instance to the client until it ends, well or badly.

import type { ClientRequest } from './client-request.ts';
import type { ClientResponse } from './client-response.ts';
import { BrokenStreamError, EventFilter } from './event-filter.ts';
import type { UpstreamRequest } from './upstream-request.ts';

/**
 * Resolves when the last event has been written; what the client has is in the progress of the request.
 * @param onEvents called before events go to the client.
 * @throws UpstreamFailure or BrokenStreamError where the stream ends too early, or the reason for which it was cancelled.
 */
export async function relayEvents(
  upstream: UpstreamRequest,
  { options: { endpoint, response }, progress }: ClientRequest,
  onEvents: () => void,
): Promise<void> {
  const filter = new EventFilter(endpoint, progress);
  await upstream
    .pipe((chunk) => {
      const parts = filter.take(chunk);
      if (parts.length > 0) {
        onEvents();
        pass(parts.length === 1 ? parts[0]! : Buffer.concat(parts), upstream, response);
      }
      if (filter.failure !== null) upstream.cancel(filter.failure);
    })
    .catch((error: unknown) => {
      if (!progress.isDone) throw error;
    });
  if (!progress.isDone) throw new BrokenStreamError('the stream ended without its last event');
}

/** The stream of an instance that keeps no journal: its bytes as they are. */
export async function relayBytes(
  upstream: UpstreamRequest,
  { options: { response } }: ClientRequest,
  onBytes: () => void,
): Promise<void> {
  await upstream.pipe((chunk) => {
    onBytes();
    pass(chunk, upstream, response);
  });
}

function pass(bytes: Buffer, upstream: UpstreamRequest, response: ClientResponse): void {
  if (response.write(bytes)) return;
  upstream.pause();
  void response.drained().then(() => upstream.resume());
}
