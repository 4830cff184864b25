// Progress of start-up on stderr: a bar on a terminal, otherwise a few log lines.

export interface LoadProgress {
  /** @param fraction 0 to 1 of the current phase; null where there is nothing to measure. */
  update(fraction: number | null, what: string): void;
  stop(): void;
}

/** A line at the start and then after each such part. */
const LINE_EVERY = 0.25;

/** @param log writes one line where there is no bar. */
export async function startLoadProgress(log: (line: string) => void): Promise<LoadProgress> {
  if (!process.stderr.isTTY) return progressLines(log);
  const { SingleBar: Bar, Presets } = (await import('cli-progress')).default;
  const format = '{bar} {percentage}% {what}';
  // Ctrl-C may come at any point: no setting of the terminal is changed that would have to be set back.
  const untouched = { hideCursor: false, linewrap: true };
  const about = { format, stream: process.stderr, clearOnComplete: true, barsize: 20, ...untouched };
  const bar = new Bar(about, Presets.shades_grey);
  bar.start(100, 0, { what: 'starting' });
  return {
    update: (fraction, what) => bar.update(Math.floor((fraction ?? 0) * 100), { what }),
    stop: () => bar.stop(),
  };
}

function progressLines(log: (line: string) => void): LoadProgress {
  let last = 0;
  let next = 0;
  return {
    update(fraction, what) {
      if (fraction === null) return log(what);
      // Back at an earlier point: the next thing has begun.
      if (fraction < last) next = 0;
      last = fraction;
      if (fraction < next) return;
      log(`${what}: ${Math.floor(fraction * 100)}%`);
      next = (Math.floor(fraction / LINE_EVERY) + 1) * LINE_EVERY;
    },
    stop() {},
  };
}
