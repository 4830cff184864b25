// svc download: a model from a hub to this machine, and where it is.

import { downloadProgress } from '../../hub/download-progress.ts';
import type { HubOptions } from '../../hub/model-hub.ts';
import { resolveModel } from '../../hub/resolve-model.ts';
import { startLoadProgress } from '../../observability/load-progress.ts';

export async function download(model: string, options: HubOptions): Promise<void> {
  const progress = await startLoadProgress((line) => process.stderr.write(`${line}\n`));
  const path = await resolveModel(model, {
    ...options,
    onProgress: downloadProgress(progress.update),
  }).finally(() => progress.stop());
  process.stdout.write(`${path}\n`);
}
