// svc models list: what was downloaded from the hubs.

import { cachedModels } from '../../hub/cached-models.ts';
import { bytes } from '../../util/bytes.ts';
import { table } from '../table.ts';

interface ListOptions {
  readonly downloadDir?: string;
  readonly isJson: boolean;
}

export async function listModels({ downloadDir, isJson }: ListOptions): Promise<void> {
  const models = await cachedModels({ downloadDir });
  if (isJson) {
    const rows = models.map(({ lock: _, ...model }) => model);
    process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
    return;
  }
  if (models.length === 0) {
    process.stdout.write('no models were downloaded; svc download <model> fetches one\n');
    return;
  }
  const rows = models.map(({ name, hub, revisions, bytes: size, path }) => [
    name,
    revisions.join(', '),
    bytes(size),
    // An address that a person gave may lack its scheme.
    hub.replace(/^https?:\/\//, ''),
    path,
  ]);
  process.stdout.write(table([['MODEL', 'REVISIONS', 'SIZE', 'HUB', 'PATH'], ...rows]));
}
