import { expect, it } from 'vitest';
import { startLoadProgress } from '../../src/observability/load-progress.ts';

it('progress without a terminal is a few lines, however often it is told', async () => {
  const lines: string[] = [];
  const progress = await startLoadProgress((line) => lines.push(line));
  for (let i = 0; i <= 100; i++) progress.update(i / 100, 'downloading');
  for (let layer = 1; layer <= 10; layer++) progress.update(layer / 10, `layer ${layer}`);
  progress.update(null, 'using the local copy');
  progress.stop();
  expect(lines).toEqual([
    'downloading: 0%',
    'downloading: 25%',
    'downloading: 50%',
    'downloading: 75%',
    'downloading: 100%',
    'layer 1: 10%',
    'layer 3: 30%',
    'layer 5: 50%',
    'layer 8: 80%',
    'layer 10: 100%',
    'using the local copy',
  ]);
});
