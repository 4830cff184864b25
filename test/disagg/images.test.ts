// Images through prefill and decode: blocks of a prompt are used where both instances have seen the same images, and only there.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { Cluster, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { until } from '../helpers/until.ts';
import { untilNothingIsHeld } from './client-disconnects.ts';
import { answerOf, answersOf, type MixedRequest } from './mixed-requests.ts';

const newFolder = temporaryFolders();
const pictures = await Promise.all([1, 2, 3].map((seed) => tinyPicture(seed)));
const urls = pictures.map((file) => `data:image/png;base64,${Buffer.from(file).toString('base64')}`);

/** Shows another picture each time. */
let numShown = 0;
const web = createServer((_, response) => response.end(pictures[numShown++ % 2]));

const TEXT = { type: 'text', text: 'What is there to be seen?' };
const chatOf = (...shown: readonly string[]) => [
  { role: 'user', content: [...shown.map((url) => ({ type: 'image_url', image_url: { url } })), TEXT] },
];

/** The same text, and other pictures. */
function chatAbout(shown: readonly string[], more: object = {}): MixedRequest {
  const body = {
    messages: chatOf(...shown),
    max_tokens: 12,
    temperature: 0,
    logprobs: true,
    ignore_eos: true,
  };
  return { path: '/v1/chat/completions', body: { ...body, ...more } };
}

/** Of every protocol. */
const REQUESTS: readonly MixedRequest[] = [
  ...urls.map((url) => chatAbout([url])),
  ...urls.map((url) => chatAbout([url, urls[0]!], { temperature: 1, seed: 5, n: 2 })),
  chatAbout([urls[1]!, urls[2]!], { stream: true }),
  {
    path: '/v1/responses',
    body: {
      input: [{ role: 'user', content: [{ type: 'input_image', image_url: urls[2] }] }],
      max_output_tokens: 16,
      temperature: 0,
    },
  },
  {
    path: '/v1/messages',
    body: {
      messages: [
        {
          role: 'user',
          content: [
            {
              type: 'image',
              source: { type: 'base64', media_type: 'image/png', data: urls[1]!.split(',')[1] },
            },
          ],
        },
      ],
      max_tokens: 9,
      temperature: 0,
    },
  },
];

describe('images through instances of each way to send, and two that decode', needsNative, () => {
  let cluster: Cluster;
  let webUrl: string;
  beforeAll(async () => {
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
    webUrl = `http://127.0.0.1:${(web.address() as AddressInfo).port}/picture.png`;
    const model = newFolder();
    writeTinyVisionModel(model, { family: 'Qwen3-VL' });
    cluster = await Cluster.start({
      model,
      producers: 0,
      consumers: 2,
      // Short chunks, so that images leave in pieces; and each request has its prompt sent.
      serveArgs: [
        ...['--max-num-batched-tokens', '50', '--no-enable-prefix-caching'],
        ...['--allowed-media-domains', '127.0.0.1'],
      ],
      proxyArgs: ['--prefill-threshold', '0'],
    });
    for (const send_type of ['PUT_ASYNC', 'PUT', 'GET']) {
      await cluster.spawn('kv_producer', { extra: { send_type } });
    }
    await cluster.untilReady();
  });
  afterAll(async () => {
    web.close();
    await cluster?.stop();
  });

  const alone = (requests: readonly MixedRequest[]) => answersOf(cluster.producers[0]!.url, requests, 4);
  const sumOf = async (name: string): Promise<number> => {
    const all = await Promise.all(cluster.consumers.map(({ url }) => readMetrics(url)));
    return all.reduce((sum, metrics) => sum + (metrics.get(`svc:${name}`) ?? 0), 0);
  };

  it('are answered with the bytes of one instance', async () => {
    const expected = await alone(REQUESTS);
    expect(new Set(expected.map((answer) => JSON.stringify(answer))).size).toBe(REQUESTS.length);
    // Each producer gets each of them.
    for (let round = 0; round < cluster.producers.length; round += 1) {
      expect(await answersOf(cluster.url, [...REQUESTS, chatAbout([urls[0]!])], 4)).toEqual([
        ...expected,
        expected[0],
      ]);
    }
    expect(await sumOf('kv_transfer_loaded_tokens_total')).toBeGreaterThan(100 * REQUESTS.length);
    expect(await sumOf('kv_transfer_recomputed_total')).toBe(0);
  });

  it('that are other ones where the prompt is decoded are computed there', async () => {
    const possible = await alone([chatAbout([urls[0]!]), chatAbout([urls[1]!])]);
    const loaded = await sumOf('kv_transfer_loaded_tokens_total');
    numShown = 0;
    for (let time = 0; time < cluster.producers.length; time += 1) {
      expect(possible).toContainEqual(await answerOf(cluster.url, chatAbout([webUrl])));
    }
    expect(numShown).toBe(2 * cluster.producers.length);
    expect(await sumOf('kv_transfer_loaded_tokens_total')).toBe(loaded);
  });

  it('are seen again by the instance that takes over a stream', async () => {
    const requests = urls.map((url) => chatAbout([url], { max_tokens: 300, stream: true }));
    const expected = await alone(requests);
    const answers = answersOf(cluster.url, requests, requests.length);
    const victim = cluster.consumers[0]!;
    const made = async () => (await readMetrics(victim.url)).get('svc:generation_tokens_total') ?? 0;
    const before = await made();
    await until(async () => (await made()) > before + 20);
    victim.child.kill('SIGKILL');
    cluster.consumers.shift();
    expect(await answers).toEqual(expected);
    expect((await readMetrics(cluster.url)).get('svc:proxy_resumes_total')).toBeGreaterThan(0);
  });

  it('are seen by the instance that decodes where the other one dies before it has sent them', async () => {
    const expected = await alone(REQUESTS);
    const many = [REQUESTS, REQUESTS, REQUESTS].flat();
    const answers = answersOf(cluster.url, many, many.length);
    await until(async () => (await sumOf('num_requests_loading')) > 0);
    for (const { child } of cluster.producers) child.kill('SIGKILL');
    expect(await answers).toEqual([expected, expected, expected].flat());
    const skipped = (await readMetrics(cluster.url)).get('svc:proxy_prefill_skipped_total') ?? 0;
    expect(skipped + (await sumOf('kv_transfer_recomputed_total'))).toBeGreaterThan(0);
    expect(await untilNothingIsHeld(cluster)).toBeLessThan(10_000);
  });
});

it('images that are seen whole have the answers of one instance', needsNative, async () => {
  const model = newFolder();
  writeTinyVisionModel(model, { family: 'Gemma 3' });
  // Images are cut by no chunk, but by what is sent.
  const serveArgs = ['--max-num-batched-tokens', '40', '--max-num-seqs', '8', '--no-enable-prefix-caching'];
  const proxyArgs = ['--prefill-threshold', '0'];
  const cluster = await Cluster.start({ model, producers: 1, consumers: 1, serveArgs, proxyArgs });
  try {
    const expected = await answersOf(cluster.producers[0]!.url, REQUESTS, 4);
    expect(new Set(expected.map((answer) => JSON.stringify(answer))).size).toBe(REQUESTS.length);
    expect(await answersOf(cluster.url, REQUESTS, 4)).toEqual(expected);
    const metrics = await readMetrics(cluster.consumers[0]!.url);
    expect(metrics.get('svc:kv_transfer_loaded_tokens_total')).toBeGreaterThan(30 * REQUESTS.length);
  } finally {
    await cluster.stop();
  }
});
