// Entry of every thread. A worker cannot start from a .ts file on Node 20, so in development the TypeScript loader is
// registered first; beside compiled output the module is only imported.
import { existsSync } from 'node:fs';
import { workerData } from 'node:worker_threads';

const source = new URL(`${workerData.module}.ts`);
if (existsSync(source)) {
  const { register } = await import('tsx/esm/api');
  register();
  await import(source.href);
} else {
  await import(`${workerData.module}.js`);
}
