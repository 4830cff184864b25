// The progress bar of a batch: prompts done and tokens a second, on stderr, only where a person looks at it.

import type { SingleBar } from 'cli-progress';

export interface BatchProgress {
  /** One prompt is done. */
  advance(numPromptTokens: number, numOutputTokens: number): void;
  stop(): void;
}

/** Columns of the bar itself, and of the words around it: the line is cut at the edge of the terminal. */
const MIN_BAR = 5;
const MAX_BAR = 40;
const TEXT_COLUMNS = 80;

/** A bar over `total` prompts, or one that does nothing where it is not wanted or stderr is no terminal. */
export async function startProgress(total: number, isWanted: boolean): Promise<BatchProgress> {
  if (!isWanted || !process.stderr.isTTY) return { advance: () => {}, stop: () => {} };
  const { SingleBar: Bar, Presets } = (await import('cli-progress')).default;
  const format =
    'Processed prompts {percentage}% |{bar}| {value}/{total} [input {input} tok/s, output {output} tok/s]';
  const barsize = Math.min(MAX_BAR, Math.max(MIN_BAR, process.stderr.columns - TEXT_COLUMNS));
  // The terminal is the caller's, and so is what Ctrl-C does: the bar changes no setting that must be set back.
  const bar: SingleBar = new Bar(
    { format, barsize, stream: process.stderr, hideCursor: false, linewrap: true },
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
