// Entry of a child process that holds instances without a model: a list of their options is the first argument, as JSON.

import { z } from 'zod';
import { LightServer } from './light-server.ts';

const Options = z.object({
  role: z.enum(['kv_producer', 'kv_consumer', 'kv_both']),
  sendType: z.enum(['PUT', 'GET', 'PUT_ASYNC']),
  transport: z.enum(['auto', 'shm', 'tcp']),
  httpPort: z.int(),
  port: z.int(),
  doorPort: z.int(),
  discoveryPort: z.int(),
  blockMs: z.number(),
  tokenMs: z.number(),
  deadlines: z.record(z.string(), z.number()),
});

export type LightProcessOptions = z.infer<typeof Options>;

const lights: LightServer[] = [];
for (const { discoveryPort, ...options } of z.array(Options).parse(JSON.parse(process.argv[2] ?? ''))) {
  lights.push(await LightServer.start({ ...options, proxy: { ip: '127.0.0.1', port: discoveryPort } }));
}
process.on(
  'SIGTERM',
  () => void Promise.all(lights.map((light) => light.drain())).then(() => process.exit(0)),
);
process.stdout.write('ready\n');
