// A bar on the terminal of a program while its model is downloaded: without one it would seem to hang for minutes.

import type { EngineConfig } from '../config/engine-config.ts';
import { downloadProgress } from '../hub/download-progress.ts';
import { withFolders } from '../models/model-folder.ts';
import { type LoadProgress, startLoadProgress } from '../observability/load-progress.ts';

/**
 * As `withFolders`, until `signal` is aborted; what is on this machine already shows nothing, and where stderr is no terminal nothing is shown.
 * @throws ModelLoadError where there is no such model.
 */
export async function downloadWithBar(config: EngineConfig, signal: AbortSignal): Promise<EngineConfig> {
  if (!process.stderr.isTTY) return withFolders(config, { signal });
  const started: Promise<LoadProgress>[] = [];
  const onProgress = downloadProgress((fraction, what) => {
    if (started.length === 0) started.push(startLoadProgress(() => {}));
    void started[0]!.then((bar) => bar.update(fraction, what));
  });
  try {
    return await withFolders(config, { onProgress, signal });
  } finally {
    for (const bar of started) (await bar).stop();
  }
}
