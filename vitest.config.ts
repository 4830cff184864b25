import { defineConfig } from 'vitest/config';

/**
 * Folders whose tests leave nothing in their process that another file could see: no server, no setting of the process. An emulated GPU
 * is one: from then on the process has a GPU.
 */
const UNITS = [
  'config',
  'kv-cache',
  'models',
  'ops',
  'parsers',
  'runner',
  'sampling',
  'scheduler',
  'speculation',
  'structured-output',
].map((folder) => `test/${folder}/**/!(cuda*|kv-cache-free|no-slot|probes|take-activations).test.ts`);

export default defineConfig({
  test: {
    setupFiles: ['./test/helpers/equal-bytes.ts', './test/helpers/built-threads.ts'],
    // The addon, worker threads and sockets want processes of their own.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // A machine may stall for a second.
    expect: { poll: { timeout: 30_000 } },
    reporters: ['default', './test/helpers/closing-line-reporter.ts'],
    projects: [
      // A process a file.
      { extends: true, test: { name: 'systems', include: ['test/**/*.test.ts'], exclude: UNITS } },
      // Two processes take all files in turn: to start one and to import what a file needs is a second of a core.
      { extends: true, test: { name: 'units', include: UNITS, isolate: false } },
    ],
  },
});
