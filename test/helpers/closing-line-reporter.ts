// Prints plain lines at the end of a run, for people and for programs that read logs: why tests were skipped, then how many
// passed, failed and were skipped.

import type { Reporter, TestCase, TestModule } from 'vitest/node';

export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    // An error outside of any test, such as a process that crashed, is a failure all the same.
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    const skips = new Map<string, number>();
    for (const module of modules) {
      const tests = [...module.children.allTests()];
      for (const test of tests) {
        const { state } = test.result();
        if (state !== 'pending') counts[state] += 1;
        if (state === 'skipped') skips.set(reasonOf(test), (skips.get(reasonOf(test)) ?? 0) + 1);
      }
      // A file that breaks before its first test has no test that could fail.
      if (module.state() === 'failed' && !tests.some((test) => test.result().state === 'failed'))
        counts.failed += 1;
    }
    const reasons = [...skips].map(([reason, count]) => `skipped ${count}: ${reason}\n`);
    const total = `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`;
    console.log(`\n${reasons.join('')}${total}`);
  }
}

/** What `needs` or the test itself says; a run may also be of some tests only. */
function reasonOf(test: TestCase): string {
  const result = test.result();
  const note = result.state === 'skipped' ? result.note : undefined;
  return note ?? test.meta().skipReason ?? 'they were not asked for';
}
