import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['./test/helpers/equal-bytes.ts', './test/helpers/built-threads.ts'],
    // The addon, worker threads and sockets want a process of their own a file.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['default', './test/helpers/closing-line-reporter.ts'],
  },
});
