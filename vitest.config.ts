import { defineConfig } from 'vitest/config';

/**
 * Files with a process each: those that emulate a GPU, for from then on the process has one, and those that start many processes
 * themselves, which take longest and so begin first.
 */
const APART = [
  'test/{bench,disagg,examples}/**/*.test.ts',
  'test/**/cuda*.test.ts',
  'test/kv-transfer/native-*.test.ts',
  'test/{ops,runner}/{amx,kv-cache-free,no-slot,prepare-heads,probes,take-activations}.test.ts',
];

export default defineConfig({
  test: {
    setupFiles: [
      './test/helpers/equal-bytes.ts',
      './test/helpers/whole-arrays.ts',
      './test/helpers/built-threads.ts',
    ],
    // The addon, worker threads and sockets want processes of their own.
    pool: 'forks',
    // As many as a small machine has cores: many files start processes that compute, and more would only make each other late.
    maxWorkers: 2,
    // A machine may stall, or be shared: only what hangs is to fail by a clock.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
    reporters: ['default', './test/helpers/closing-line-reporter.ts'],
    projects: [
      { extends: true, test: { name: 'apart', include: APART } },
      // All other files in turn, by processes that stay: to start one and to import what a file needs is a second of a core.
      {
        extends: true,
        test: {
          name: 'shared',
          include: ['test/**/*.test.ts'],
          exclude: APART,
          isolate: false,
          env: { TEST_PROCESS_IS_SHARED: '1' },
        },
      },
    ],
  },
});
