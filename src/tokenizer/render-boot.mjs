// Entry of the thread that renders chat templates. A worker cannot start from a .ts file on Node 20, so in development
// this shim registers the TypeScript loader first; beside compiled output it only imports.
import { existsSync } from 'node:fs';

const source = new URL('./render-thread.ts', import.meta.url);
if (existsSync(source)) {
  const { register } = await import('tsx/esm/api');
  register();
  await import(source.href);
} else {
  await import('./render-thread.js');
}
