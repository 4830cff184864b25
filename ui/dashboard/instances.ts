// What the proxy tells of its instances.

import { useState } from 'preact/hooks';
import * as z from 'zod/mini';
import { request } from '../api.ts';
import { usePolling } from './use-readings.ts';

const instanceSchema = z.object({
  type: z.enum(['P', 'D']),
  http_address: z.string(),
  state: z.string(),
  is_suspect: z.boolean(),
  model: z.nullable(z.string()),
  load: z.nullable(
    z.object({
      running: z.number(),
      waiting: z.number(),
      free_blocks: z.number(),
      num_blocks: z.number(),
    }),
  ),
  in_flight: z.number(),
});
const topologySchema = z.object({
  instances: z.array(instanceSchema),
  transfers: z.array(z.object({ prefill: z.string(), decode: z.string(), at: z.number() })),
  requests_in_flight: z.number(),
  policy: z.string(),
});

export type Instance = z.output<typeof instanceSchema>;
export type Topology = z.output<typeof topologySchema>;

/** Asked for once a second; null until there is an answer. */
export function useTopology(): { topology: Topology | null; error: string | null } {
  const [state, setState] = useState<{ topology: Topology | null; error: string | null }>({
    topology: null,
    error: null,
  });
  usePolling(
    async () => {
      const topology = topologySchema.parse(await (await request('instances')).json());
      setState({ topology, error: null });
    },
    (error) => setState(({ topology }) => ({ topology, error })),
  );
  return state;
}
