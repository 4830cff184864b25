// Reads /metrics once a second for as long as the page is open.

import { useEffect, useState } from 'preact/hooks';
import { request } from '../api.ts';
import { Reading } from './prometheus.ts';

const PERIOD_MS = 1000;
/** Five minutes. */
const MAX_READINGS = 300;

export interface Readings {
  readonly all: readonly Reading[];
  /** Why there is no newer one. */
  readonly error: string | null;
}

export function useReadings(): Readings {
  const [readings, setReadings] = useState<Readings>({ all: [], error: null });
  usePolling(
    async () => {
      const text = await (await request('metrics')).text();
      const made = new Reading(text, Date.now() / 1000);
      setReadings(({ all }) => ({ all: [...all, made].slice(-MAX_READINGS), error: null }));
    },
    (error) => setReadings(({ all }) => ({ all, error })),
  );
  return readings;
}

/** Calls `read` again a second after its last end. */
export function usePolling(read: () => Promise<void>, failed: (why: string) => void): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const turn = async () => {
      await read().catch((error) => failed(error instanceof Error ? error.message : String(error)));
      if (!isOver) timer = setTimeout(turn, PERIOD_MS);
    };
    void turn();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);
}
