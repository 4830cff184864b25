// What a download tells of itself: how much of how much, how fast, and how long it will take.

import { bytes } from '../util/bytes.ts';
import type { DownloadProgress } from './download.ts';

/** The speed is that of this time, at least. */
const WINDOW_MS = 3000;

interface Sample {
  readonly time: number;
  readonly done: number;
}

/** @param update as of `startLoadProgress` */
export function downloadProgress(
  update: (fraction: number | null, what: string) => void,
  now: () => number = Date.now,
): (progress: DownloadProgress) => void {
  let samples: Sample[] = [];
  return ({ done, total, what }) => {
    if (total === 0) return update(null, what);
    const time = now();
    samples = [
      ...samples.filter((sample, index) => isRecent(samples[index + 1] ?? sample, time)),
      { time, done },
    ];
    // A narrow terminal cuts the end off.
    const parts = [`${bytes(done)} of ${bytes(total)}`, ...speed(samples, total - done), what];
    update(done / total, parts.join(', '));
  };
}

function isRecent({ time }: Sample, now: number): boolean {
  return now - time < WINDOW_MS;
}

function speed(samples: readonly Sample[], left: number): string[] {
  const [first, last] = [samples[0]!, samples.at(-1)!];
  const perSecond = ((last.done - first.done) * 1000) / (last.time - first.time);
  if (!(perSecond > 0) || left <= 0) return [];
  return [`${bytes(perSecond)}/s`, `${duration(left / perSecond)} left`];
}

function duration(seconds: number): string {
  if (seconds < 100) return `${Math.ceil(seconds)} s`;
  const minutes = Math.ceil(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
