// The progress bar of a batch: prompts done and tokens a second, on stderr, only where a person looks at it.

import type { SingleBar } from 'cli-progress';

export interface BatchProgress {
  /** One prompt is done. */
  advance(numPromptTokens: number, numOutputTokens: number): void;
  stop(): void;
}

/** A bar over `total` prompts, or one that does nothing where it is not wanted or stderr is no terminal. */
export async function startProgress(total: number, isWanted: boolean): Promise<BatchProgress> {
  if (!isWanted || !process.stderr.isTTY) return { advance: () => {}, stop: () => {} };
  const { SingleBar: Bar, Presets } = (await import('cli-progress')).default;
  const format =
    'Processed prompts {percentage}% |{bar}| {value}/{total} [input {input} tok/s, output {output} tok/s]';
  const bar: SingleBar = new Bar(
    { format, stream: process.stderr, hideCursor: true },
    Presets.shades_classic,
  );
  const startedAt = performance.now();
  let inputTokens = 0;
  let outputTokens = 0;
  bar.start(total, 0, { input: '0', output: '0' });
  return {
    advance: (numPromptTokens, numOutputTokens) => {
      inputTokens += numPromptTokens;
      outputTokens += numOutputTokens;
      const seconds = (performance.now() - startedAt) / 1000;
      const rate = (tokens: number): string => (tokens / seconds).toFixed(1);
      bar.increment(1, { input: rate(inputTokens), output: rate(outputTokens) });
    },
    stop: () => bar.stop(),
  };
}
