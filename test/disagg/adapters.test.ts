// Adapters through prefill and decode: blocks of an adapter are used where the other instance has the same one, and only there.

import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { Cluster, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();
const PROMPT = Array.from({ length: 50 }, (_, index) => 10 + 3 * index);
const Completion = z.object({
  model: z.string(),
  choices: z.array(z.object({ token_ids: z.array(z.number()) })),
});

function ask(url: string, model: string): Promise<Response> {
  const body = {
    model,
    prompt: PROMPT,
    max_tokens: 10,
    temperature: 0,
    ignore_eos: true,
    return_token_ids: true,
  };
  return fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

async function tokensOf(url: string, model: string): Promise<number[]> {
  const answer = Completion.parse(await (await ask(url, model)).json());
  expect(answer.model).toBe(model);
  return answer.choices[0]!.token_ids;
}

describe('adapters of one producer and one consumer', needsNative, () => {
  let cluster: Cluster;
  beforeAll(async () => {
    const folder = newFolder();
    writeTinyModel(join(folder, 'model'), { seed: 1 });
    for (const seed of [1, 2, 3]) writeTinyAdapter(join(folder, `${seed}`), { seed });
    const named = (name: string, seed: number) => `${name}=${join(folder, `${seed}`)}`;
    cluster = await Cluster.start({
      model: join(folder, 'model'),
      producers: 1,
      consumers: 1,
      proxyArgs: ['--prefill-threshold', '0'],
      producerArgs: ['--lora-modules', named('same', 1), named('other', 2), named('away', 2)],
      consumerArgs: ['--lora-modules', named('same', 1), named('other', 3), named('lone', 3)],
    });
  }, 60_000);
  afterAll(() => cluster?.stop());

  const loadedTokens = async (): Promise<number> =>
    (await readMetrics(cluster.consumers[0]!.url)).get('svc:kv_transfer_loaded_tokens_total') ?? 0;

  it('that are the same on both are decoded from blocks of the producer, with the bytes of one instance', async () => {
    const before = await loadedTokens();
    const tokens = await tokensOf(cluster.url, 'same');
    expect(await loadedTokens()).toBeGreaterThanOrEqual(before + 48);
    expect(tokens).toEqual(await tokensOf(cluster.producers[0]!.url, 'same'));
  });

  it('that differ under one name never mix: the consumer computes the prompt itself', async () => {
    const before = await loadedTokens();
    const tokens = await tokensOf(cluster.url, 'other');
    expect(await loadedTokens()).toBe(before);
    const [producer, consumer] = [cluster.producers[0]!, cluster.consumers[0]!];
    expect(tokens).toEqual(await tokensOf(consumer.url, 'other'));
    expect(tokens).not.toEqual(await tokensOf(producer.url, 'other'));
  });

  it('that the producer lacks are computed by the consumer alone', async () => {
    expect(await tokensOf(cluster.url, 'lone')).toEqual(await tokensOf(cluster.consumers[0]!.url, 'lone'));
  });

  it('that the consumer lacks are a clear error, and are listed as the consumer lists them', async () => {
    const refused = await ask(cluster.url, 'away');
    expect(refused.status).toBe(404);
    expect(await refused.text()).toContain('The model `away` does not exist');
    const models = z.object({ data: z.array(z.object({ id: z.string() })) });
    const { data } = models.parse(await (await fetch(`${cluster.url}/v1/models`)).json());
    expect(data.map(({ id }) => id).slice(1)).toEqual(['same', 'other', 'lone']);
  });
});
