import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RequestMetrics } from '../../src/server/request-metrics.ts';
import { until } from '../helpers/until.ts';
import { isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

const LABELS = `model_name="${MODEL}",engine="0"`;
const SIX_BLOCKS = 6 * 12_288;
const PREEMPTIONS = `svc:num_preemptions_total{${LABELS}}`;
const ENDLESS = { model: MODEL, prompt: 'Hello', max_tokens: 19_000, ignore_eos: true };

const GAUGES = ['num_requests_running', 'num_requests_waiting', 'kv_cache_usage_perc'];
const COUNTERS = [
  'prefix_cache_queries',
  'prefix_cache_hits',
  'external_prefix_cache_queries',
  'external_prefix_cache_hits',
  'num_preemptions',
  'prompt_tokens',
  'prompt_tokens_cached',
  'generation_tokens',
];
const FIRST_TOKEN =
  '0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560 +Inf';
const NEXT_TOKEN = '0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80 +Inf';
const REQUEST = '0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680 +Inf';
const LENGTH = '1 2 5 10 20 50 100 200 500 1000 2000 5000 10000 20000 +Inf';
const HISTOGRAMS = {
  time_to_first_token_seconds: FIRST_TOKEN,
  inter_token_latency_seconds: NEXT_TOKEN,
  request_time_per_output_token_seconds: NEXT_TOKEN,
  e2e_request_latency_seconds: REQUEST,
  request_queue_time_seconds: REQUEST,
  request_prefill_time_seconds: REQUEST,
  request_decode_time_seconds: REQUEST,
  request_inference_time_seconds: REQUEST,
  request_prompt_tokens: LENGTH,
  request_prefill_kv_computed_tokens: LENGTH,
  request_max_num_generation_tokens: LENGTH,
  request_generation_tokens: LENGTH,
  request_params_max_tokens: LENGTH,
  request_params_n: '1 2 5 10 20 +Inf',
  iteration_tokens_total: '1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 +Inf',
};

let svc: TestServer;
const lines: string[] = [];
beforeAll(async () => {
  svc = await startTestServer({
    model: { config: { max_position_embeddings: 20_000 } },
    engine: { maxNumSeqs: 2 },
    server: { logger: pino({ base: null }, { write: (line) => lines.push(line) }), statsIntervalMs: 30 },
  });
});
afterAll(() => svc.close());

async function scrape(url = svc.url): Promise<Map<string, number>> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const samples = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    samples.map((line) => [
      line.slice(0, line.lastIndexOf(' ')),
      Number(line.slice(line.lastIndexOf(' ') + 1)),
    ]),
  );
}

/** What a time series has gained while `act` ran. */
async function gained(act: () => Promise<unknown>): Promise<(series: string) => number> {
  const before = await scrape();
  await act();
  const after = await scrape();
  return (series) => after.get(`svc:${series}`)! - before.get(`svc:${series}`)!;
}

function ended(reason: string): string {
  return `request_success_total{finished_reason="${reason}",${LABELS}}`;
}

function fromSource(source: string): string {
  return `prompt_tokens_by_source_total{source="${source}",${LABELS}}`;
}

function waitingFor(reason: string): string {
  return `num_requests_waiting_by_reason{reason="${reason}",${LABELS}}`;
}

describe('GET /metrics', () => {
  it('has every name with its labels and bounds before anything was asked', async () => {
    const metrics = await scrape();
    const names = [
      ...GAUGES,
      ...COUNTERS.map((name) => `${name}_total`),
      ...Object.keys(HISTOGRAMS).flatMap((name) => [`${name}_count`, `${name}_sum`]),
    ];
    for (const name of names) expect([name, metrics.get(`svc:${name}{${LABELS}}`)]).toEqual([name, 0]);
    for (const reason of ['stop', 'length', 'abort', 'error']) {
      expect([reason, metrics.get(`svc:${ended(reason)}`)]).toEqual([reason, 0]);
    }
    const ofOthers = [...metrics.keys()].filter((name) => /^svc:(kv_transfer|spec_decode|lora)_/.test(name));
    expect(ofOthers).toEqual([]);
    for (const source of ['local_compute', 'local_cache_hit', 'external_kv_transfer']) {
      expect([source, metrics.get(`svc:${fromSource(source)}`)]).toEqual([source, 0]);
    }
    for (const reason of ['capacity', 'deferred']) {
      expect([reason, metrics.get(`svc:${waitingFor(reason)}`)]).toEqual([reason, 0]);
    }
    for (const [name, bounds] of Object.entries(HISTOGRAMS)) {
      const buckets = [...metrics.keys()].filter((series) => series.startsWith(`svc:${name}_bucket{`));
      expect(buckets).toEqual(
        bounds.split(' ').map((bound) => `svc:${name}_bucket{le="${bound}",${LABELS}}`),
      );
    }
  });

  it('tells the settings of the cache as labels, and of the process', async () => {
    const metrics = await scrape();
    const info = [...metrics].find(([series]) => series.startsWith('svc:cache_config_info{'))!;
    expect(info[1]).toBe(1);
    for (const label of [
      'engine="0"',
      'block_size="16"',
      'num_gpu_blocks="',
      'enable_prefix_caching="true"',
    ]) {
      expect(info[0]).toContain(label);
    }
    expect(info[0]).not.toContain('model_name');
    for (const name of ['process_resident_memory_bytes', 'process_cpu_seconds_total']) {
      expect(metrics.get(name)).toBeGreaterThan(0);
    }
    expect(metrics.has('nodejs_eventloop_lag_seconds')).toBe(true);
  });

  it('counts every token and every sample of a request, and the request once', async () => {
    const gain = await gained(() =>
      svc.client.completions.create({ ...ENDLESS, max_tokens: 7, n: 3, seed: 1 }),
    );
    const { promptTokens } = await svc.engine.stats();
    expect(promptTokens).toBeGreaterThan(0);
    const expected = {
      [`time_to_first_token_seconds_count{${LABELS}}`]: 3,
      [`inter_token_latency_seconds_count{${LABELS}}`]: 3 * 6,
      [`generation_tokens_total{${LABELS}}`]: 3 * 7,
      [`request_generation_tokens_sum{${LABELS}}`]: 3 * 7,
      [`request_generation_tokens_bucket{le="5",${LABELS}}`]: 0,
      [`request_generation_tokens_bucket{le="10",${LABELS}}`]: 3,
      [`request_prompt_tokens_sum{${LABELS}}`]: promptTokens,
      [`request_params_max_tokens_sum{${LABELS}}`]: 3 * 7,
      [`request_params_n_sum{${LABELS}}`]: 3,
      [`request_params_n_count{${LABELS}}`]: 1,
      [`request_max_num_generation_tokens_sum{${LABELS}}`]: 7,
      [`request_max_num_generation_tokens_count{${LABELS}}`]: 1,
      [`e2e_request_latency_seconds_count{${LABELS}}`]: 3,
      [`request_decode_time_seconds_count{${LABELS}}`]: 3,
      [ended('length')]: 3,
      [ended('stop')]: 0,
    };
    const found = Object.fromEntries(Object.keys(expected).map((series) => [series, gain(series)]));
    expect(found).toEqual(expected);
    // Every token but the last of each sample is computed, and the prompt, unless another sample has it.
    expect(gain(`iteration_tokens_total_sum{${LABELS}}`)).toBeGreaterThanOrEqual(3 * 6);
  });

  it('counts prompt tokens that were looked up, found and computed', async () => {
    const prompt = Array.from({ length: 40 }, (_, index) => index + 7);
    const gain = await gained(async () => {
      for (let i = 0; i < 2; i += 1)
        await svc.client.completions.create({ ...ENDLESS, prompt, max_tokens: 2 });
    });
    expect(gain(`prefix_cache_queries_total{${LABELS}}`)).toBe(80);
    expect(gain(`prefix_cache_hits_total{${LABELS}}`)).toBe(32);
    expect(gain(`prompt_tokens_total{${LABELS}}`)).toBe(80);
    expect(gain(`prompt_tokens_cached_total{${LABELS}}`)).toBe(32);
    expect([gain(fromSource('local_compute')), gain(fromSource('local_cache_hit'))]).toEqual([48, 32]);
    expect(gain(`request_prefill_kv_computed_tokens_sum{${LABELS}}`)).toBe(48);
    expect(gain(`request_prefill_kv_computed_tokens_count{${LABELS}}`)).toBe(2);
    // The second request computes what is not in two full blocks, and each one token of its answer.
    expect(gain(`iteration_tokens_total_sum{${LABELS}}`)).toBe(40 + 8 + 2);
  });

  it('splits the time of a request into waiting, prompt and answer', async () => {
    const seconds = async (act: () => Promise<unknown>): Promise<Record<string, number>> => {
      const gain = await gained(act);
      const of = (name: string): number => gain(`${name}_seconds_sum{${LABELS}}`);
      return {
        firstToken: of('time_to_first_token'),
        betweenTokens: of('inter_token_latency'),
        all: of('e2e_request_latency'),
        queue: of('request_queue_time'),
        prefill: of('request_prefill_time'),
        decode: of('request_decode_time'),
        inference: of('request_inference_time'),
      };
    };
    const alone = await seconds(() => svc.client.completions.create({ ...ENDLESS, max_tokens: 200 }));
    expect(alone.betweenTokens).toBeCloseTo(alone.decode!, 6);
    expect(alone.inference).toBeCloseTo(alone.prefill! + alone.decode!, 6);
    expect(alone.all).toBeGreaterThanOrEqual(alone.queue! + alone.inference!);
    expect(alone.firstToken).toBeGreaterThanOrEqual(alone.queue! + alone.prefill!);
    expect(alone.queue).toBeLessThan(alone.inference!);
    // Of one request one sample runs at a time here: the last one waits for all others.
    const many = await seconds(() =>
      svc.client.completions.create({ ...ENDLESS, max_tokens: 200, n: 4, seed: 1 }),
    );
    expect(many.queue).toBeGreaterThan(many.inference!);
    expect(many.firstToken).toBeGreaterThan(many.queue!);
  });

  it('tells aborted requests apart, with the times that they have', async () => {
    const gain = await gained(async () => {
      const controller = new AbortController();
      const { generationTokens: before } = await svc.engine.stats();
      const asked = svc.client.completions.create({ ...ENDLESS, n: 2 }, { signal: controller.signal });
      asked.catch(() => {});
      await until(async () => (await svc.engine.stats()).generationTokens > before + 1);
      const metrics = await scrape();
      expect(metrics.get(`svc:num_requests_waiting{${LABELS}}`)).toBe(1);
      expect(metrics.get(`svc:num_requests_running{${LABELS}}`)).toBe(1);
      expect(metrics.get(`svc:kv_cache_usage_perc{${LABELS}}`)).toBeGreaterThan(0);
      controller.abort();
      await asked.catch(() => {});
      await until(() => isIdle(svc.engine));
    });
    expect(gain(ended('abort'))).toBe(2);
    expect(gain(`e2e_request_latency_seconds_count{${LABELS}}`)).toBe(2);
    expect(gain(`request_decode_time_seconds_count{${LABELS}}`)).toBe(1);
  });

  it('counts an answer that a stop text ends as stopped', async () => {
    const gain = await gained(async () => {
      const { choices } = await svc.client.completions.create({ ...ENDLESS, max_tokens: 20, seed: 3 });
      const stop = choices[0]!.text.slice(4, 8);
      const stopped = await svc.client.completions.create({ ...ENDLESS, max_tokens: 20, seed: 3, stop });
      expect(stopped.choices[0]!.finish_reason).toBe('stop');
    });
    expect([gain(ended('stop')), gain(ended('length'))]).toEqual([1, 1]);
    expect(gain(`request_params_max_tokens_sum{${LABELS}}`)).toBe(40);
  });

  it('shows requests that wait for a seat', async () => {
    const controller = new AbortController();
    for (let i = 0; i < 3; i += 1) {
      svc.client.completions.create(ENDLESS, { signal: controller.signal }).catch(() => {});
    }
    await until(async () => {
      const metrics = await scrape();
      const of = (name: string) => metrics.get(`svc:num_requests_${name}{${LABELS}}`);
      const isForRoom = metrics.get(`svc:${waitingFor('capacity')}`) === 1;
      return of('running') === 2 && of('waiting') === 1 && isForRoom;
    });
    controller.abort();
    await until(() => isIdle(svc.engine));
  });
});

describe('metrics of HTTP', () => {
  const PATH = '/v1/completions';
  const COUNTED = { handler: PATH, method: 'POST' };
  const series = (name: string, labels: Record<string, string>): string =>
    `${name}{${Object.entries(labels)
      .map(([key, value]) => `${key}="${value}"`)
      .join(',')}}`;
  const requests = (labels: Record<string, string>): string => series('http_requests_total', labels);

  /** What series have gained while `act` ran: an answer is counted just after its last byte. */
  async function expectGain(act: () => Promise<unknown>, expected: Record<string, number>): Promise<void> {
    const before = await scrape();
    await act();
    await until(async () => {
      const after = await scrape();
      return Object.entries(expected).every(
        ([name, gain]) => (after.get(name) ?? 0) - (before.get(name) ?? 0) === gain,
      );
    });
  }

  it('count requests by route and class of status, with their durations and sizes', async () => {
    const body = JSON.stringify({ prompt: 'Hello', max_tokens: 2 });
    const headers = { 'content-type': 'application/json' };
    const sent = 'http_response_size_bytes_sum{handler="/v1/completions"}';
    const before = (await scrape()).get(sent) ?? 0;
    const act = async () => {
      await (await fetch(svc.url + PATH, { method: 'POST', headers, body })).text();
      await (await fetch(svc.url + PATH, { method: 'POST', headers, body: '{' })).text();
    };
    await expectGain(act, {
      [requests({ ...COUNTED, status: '2xx' })]: 1,
      [requests({ ...COUNTED, status: '4xx' })]: 1,
      [series('http_request_duration_seconds_count', COUNTED)]: 2,
      http_request_duration_highr_seconds_count: 2,
      'http_request_size_bytes_sum{handler="/v1/completions"}': body.length + 1,
      'http_response_size_bytes_count{handler="/v1/completions"}': 2,
    });
    expect((await scrape()).get(sent)! - before).toBeGreaterThan(500);
  });

  it('count a stream with its bytes once it is over, and a client that leaves as no success', async () => {
    const sent = 'http_response_size_bytes_sum{handler="/v1/completions"}';
    const before = (await scrape()).get(sent) ?? 0;
    let numBytes = 0;
    await expectGain(
      async () => {
        numBytes = (await (await svc.post(PATH, { prompt: 'a', max_tokens: 50, stream: true })).text())
          .length;
      },
      { [requests({ ...COUNTED, status: '2xx' })]: 1 },
    );
    expect((await scrape()).get(sent)! - before).toBeGreaterThan(numBytes);
    const leave = async (): Promise<void> => {
      const controller = new AbortController();
      const stream = await svc.client.completions.create({ ...ENDLESS, stream: true }, controller);
      for await (const _ of stream) break;
      controller.abort();
    };
    await expectGain(leave, { [requests({ ...COUNTED, status: '4xx' })]: 1 });
    await until(() => isIdle(svc.engine));
  });

  it('name no path that is not a route, and leave out what machines ask', async () => {
    await expectGain(async () => void (await fetch(`${svc.url}/secret/path`)), {
      [requests({ handler: 'none', method: 'GET', status: '4xx' })]: 1,
    });
    await fetch(`${svc.url}/health`);
    const names = [...(await scrape()).keys()].filter((name) => name.startsWith('http_'));
    expect(names.filter((name) => /secret|metrics|health/.test(name))).toEqual([]);
    expect(names).toContain('http_request_duration_seconds_bucket{le="0.1",handler="none",method="GET"}');
  });
});

it('GET /metrics counts every preemption once', async () => {
  const short = await startTestServer({ engine: { maxModelLen: 64, kvCacheMemoryBytes: SIX_BLOCKS } });
  try {
    const read = async (): Promise<number> => (await scrape(short.url)).get(PREEMPTIONS) ?? Number.NaN;
    expect(await read()).toBe(0);
    // Each of the two would fill four blocks.
    await short.client.completions.create({ ...ENDLESS, max_tokens: 58, n: 2, seed: 1 });
    const { preemptions } = await short.engine.stats();
    expect(preemptions).toBeGreaterThan(0);
    expect(await read()).toBe(preemptions);
    expect(await read()).toBe(preemptions);
  } finally {
    await short.close();
  }
});

describe('the line of statistics', () => {
  const isStats = (line: string): boolean => line.includes('generation throughput');

  it('is logged while there is work', async () => {
    const controller = new AbortController();
    lines.length = 0;
    svc.client.completions.create(ENDLESS, { signal: controller.signal }).catch(() => {});
    const full =
      /prompt throughput: [\d.]+ tokens\/s, generation throughput: \d*[1-9]\d*\.\d tokens\/s, running: 1, waiting: 0, KV cache usage: \d+\.\d%/;
    await until(() => lines.filter(isStats).some((line) => full.test(line)));
    controller.abort();
    await until(() => isIdle(svc.engine));
  });
});

it('the time between tokens is measured where a sample has several', async () => {
  const registry = new Registry();
  const metrics = new RequestMetrics(registry, 100);
  const sample = {
    arrivedAt: 0,
    reason: 'stop',
    promptTokens: 1,
    prefillTokens: 1,
    maxTokens: 9,
    endToEndSeconds: 10,
    queueSeconds: 1,
    transferSeconds: null,
    prefillSeconds: 1,
    decodeSeconds: 8,
    inferenceSeconds: 9,
  } as const;
  for (const generationTokens of [1, 5]) metrics.sampleEnded({ ...sample, generationTokens });
  metrics.sampleEnded({ ...sample, generationTokens: 0, prefillTokens: null, decodeSeconds: null });
  const text = await registry.metrics();
  expect(text).toContain('svc:request_time_per_output_token_seconds_sum 2\n');
  expect(text).toContain('svc:request_time_per_output_token_seconds_count 1\n');
  expect(text).toContain('svc:request_prefill_kv_computed_tokens_count 2\n');
});
