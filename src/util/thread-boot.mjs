// Entry of every thread. A worker cannot start from a .ts file on Node 20, so in development the TypeScript loader is
// registered first; beside compiled output the module is only imported. Tests have it imported from dist/, where that is what
// the sources make: the loader takes a second of a core for each thread.
import { existsSync } from 'node:fs';
import { workerData } from 'node:worker_threads';

const { module } = workerData;
const [sources, output] = ['../', '../../dist/'].map((path) => new URL(path, import.meta.url).href);
const built = new URL(`${module.replace(sources, output)}.js`);
if (!existsSync(new URL(`${module}.ts`))) {
  await import(`${module}.js`);
} else if (process.env.SVC_TEST_BUILT_THREADS === '1' && existsSync(built)) {
  await import(built.href);
} else {
  const { register } = await import('tsx/esm/api');
  register();
  await import(`${module}.ts`);
}
