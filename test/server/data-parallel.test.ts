// A server with two engines behind its port.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelFolder } from '../../src/models/model-folder.ts';
import { answersOf, mixedRequests } from '../disagg/mixed-requests.ts';
import { needsNative } from '../helpers/needs.ts';
import { bodyOf, errorOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

const RANK = 'x-data-parallel-rank';

describe('a server with two engines', needsNative, () => {
  let svc: TestServer;
  beforeAll(async () => {
    svc = await startTestServer({ engine: { dataParallelSize: 2, numThreads: 2 } });
  });
  afterAll(() => svc.close());

  const ask = (rank: string) =>
    svc.post(
      '/v1/completions',
      { model: MODEL, prompt: 'Once', max_tokens: 3, ignore_eos: true },
      { [RANK]: rank },
    );

  async function metrics(): Promise<string[]> {
    return (await (await fetch(`${svc.url}/metrics`)).text()).split('\n');
  }

  it('computes a request on the engine that it names, and counts it there', async () => {
    for (const rank of ['1', '0', '1']) expect((await ask(rank)).status).toBe(200);
    const counted = await metrics();
    for (const [engine, times] of [3, 6].entries()) {
      const labels = `model_name="${MODEL}",engine="${engine}"`;
      expect(counted).toContain(`svc:generation_tokens_total{${labels}} ${times}`);
      expect(counted).toContain(`svc:num_requests_running{${labels}} 0`);
      const ended = `svc:request_success_total{finished_reason="length",${labels}} ${times / 3}`;
      expect(counted).toContain(ended);
      expect(counted.some((line) => line.startsWith(`svc:cache_config_info{engine="${engine}"`))).toBe(true);
    }
  });

  it.each([{ best_of: 2 }, { use_beam_search: true, n: 2 }, { stream: true }, { prompt: ['a', 'b'], n: 2 }])(
    'computes all of a request there: %j',
    async (fields) => {
      const ofFirst = async (): Promise<string | undefined> =>
        (await metrics()).find((line) => /^svc:generation_tokens_total\{.*engine="0"/.test(line));
      const before = await ofFirst();
      const body = { model: MODEL, prompt: 'Once', max_tokens: 3, ...fields };
      for (const rank of ['1', '1']) {
        const response = await svc.post('/v1/completions', body, { [RANK]: rank });
        expect([response.status, typeof (await response.text())]).toEqual([200, 'string']);
      }
      expect(await ofFirst()).toBe(before);
    },
  );

  it('shows each metric once, with the values of both', async () => {
    const types = (await metrics()).filter((line) => line.startsWith('# TYPE'));
    expect(new Set(types).size).toBe(types.length);
  });

  it.each(['2', '-1', '0.5', 'one', ''])('refuses a request that names engine %j', async (rank) => {
    expect(await errorOf(await ask(rank))).toMatchObject({
      status: 400,
      param: 'X-data-parallel-rank',
      message: expect.stringContaining('the engines are 0 to 1'),
    });
  });

  it('tells how many there are', async () => {
    expect(await bodyOf(await fetch(`${svc.url}/version`))).toMatchObject({ numEngines: 2 });
  });
});

it('gives 200 mixed requests the bytes that one engine gives', needsNative, async () => {
  const requests = mixedRequests(200, 11);
  const folder = await modelFolder('');
  const answers = [];
  for (const dataParallelSize of [1, 2]) {
    const svc = await startTestServer({ folder, engine: { dataParallelSize, numThreads: 2 } });
    answers.push(await answersOf(svc.url, requests, 16));
    await svc.close();
  }
  for (const [index, answer] of answers[1]!.entries()) {
    expect(answer, JSON.stringify(requests[index])).toEqual(answers[0]![index]);
  }
});
