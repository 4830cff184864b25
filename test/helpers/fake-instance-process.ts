// Entry of a child process that is one fake instance: its options are the first argument, as JSON.

import { z } from 'zod';
import { FakeInstance } from './fake-instance.ts';

const Options = z.object({
  type: z.enum(['P', 'D']),
  discovery: z.string(),
  tokenMs: z.number().optional(),
  httpPort: z.int().optional(),
});

const given = Options.parse(JSON.parse(process.argv[2] ?? ''));
const { tokenMs, httpPort, ...options } = given;
const instance = await FakeInstance.start({
  ...options,
  ...(tokenMs !== undefined && { tokenMs }),
  ...(httpPort !== undefined && { httpPort }),
});
process.stdout.write(`${instance.httpAddress}\n`);
