// Entry of a child process that holds instances without a model. It says when it could start them, reads a list of their
// options from its input, as JSON, and says when they serve.

import { json } from 'node:stream/consumers';
import { z } from 'zod';
import { FakeEngineInstance } from './fake-engine-instance.ts';

const Options = z.object({
  role: z.enum(['kv_producer', 'kv_consumer', 'kv_both']),
  sendType: z.enum(['PUT', 'GET', 'PUT_ASYNC']),
  transport: z.enum(['auto', 'shm', 'tcp', 'cuda-ipc', 'nccl']),
  httpPort: z.int(),
  port: z.int(),
  doorPort: z.int(),
  discoveryPort: z.int(),
  blockMs: z.number(),
  tokenMs: z.number(),
  isOnGpu: z.boolean().default(false),
  degree: z.int().default(1),
  deadlines: z.record(z.string(), z.number()),
});

export type FakeEngineProcessOptions = z.input<typeof Options>;

process.stdout.write('waiting\n');
const fakes: FakeEngineInstance[] = [];
for (const { discoveryPort, ...options } of z.array(Options).parse(await json(process.stdin))) {
  fakes.push(await FakeEngineInstance.start({ ...options, proxy: { ip: '127.0.0.1', port: discoveryPort } }));
}
process.on('SIGTERM', () => void Promise.all(fakes.map((fake) => fake.drain())).then(() => process.exit(0)));
process.stdout.write('ready\n');
