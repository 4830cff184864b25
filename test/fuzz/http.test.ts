import { expect, it } from 'vitest';
import { startTestServer } from '../server/test-server.ts';
import { fuzzHttp } from './http.ts';

it('a request is answered right, or refused in the shape of errors, whatever it is; and then the server is idle', async () => {
  const svc = await startTestServer({
    model: { config: { max_position_embeddings: 64 } },
    server: { trustsRequestTemplates: true },
  });
  try {
    const { runs, refused, faults } = await fuzzHttp({ url: svc.url, seed: 11, runs: 500 });
    expect(faults).toEqual([]);
    expect(refused).toBeGreaterThan(runs / 10);
    expect(refused).toBeLessThan(runs);
  } finally {
    await svc.close();
  }
}, 120_000);
