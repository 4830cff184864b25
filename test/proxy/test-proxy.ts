// A proxy on free ports with fake instances behind it, and the official client: what every test of this folder talks to.

import OpenAI from 'openai';
import type { Logger } from 'pino';
import { afterEach } from 'vitest';
import { z } from 'zod';
import { type ProxyConfig, proxyConfig } from '../../src/config/proxy-options.ts';
import { PROXY_DEADLINES, type ProxyDeadlines } from '../../src/proxy/deadlines.ts';
import { ProxyServer } from '../../src/proxy/proxy-server.ts';
import { FakeInstance, type FakeInstanceOptions } from '../helpers/fake-instance.ts';
import { until } from '../helpers/until.ts';

export interface TestProxyOptions {
  readonly config?: Partial<ProxyConfig>;
  readonly deadlines?: Partial<ProxyDeadlines>;
  readonly instanceKey?: string;
  readonly logger?: Logger;
}

const InstanceList = z.object({
  instances: z.array(
    z.looseObject({
      type: z.enum(['P', 'D']),
      http_address: z.string(),
      zmq_address: z.string(),
      state: z.string(),
      is_suspect: z.boolean(),
      in_flight: z.int(),
      seconds_since_heartbeat: z.number(),
    }),
  ),
  requests_in_flight: z.int(),
});
export type InstanceInfo = z.output<typeof InstanceList>['instances'][number];

const open: { close(): Promise<void> }[] = [];

/** To be called at the top of a test file. */
export function closeAllAfterEach(): void {
  afterEach(async () => {
    await Promise.all(open.splice(0).map((it) => it.close()));
  });
}

export class TestProxy {
  readonly server: ProxyServer;
  readonly client: OpenAI;
  readonly #apiKey: string;

  private constructor(server: ProxyServer, apiKey: string) {
    this.server = server;
    this.#apiKey = apiKey;
    this.client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
  }

  static async start({ config, deadlines, ...options }: TestProxyOptions = {}): Promise<TestProxy> {
    const server = await ProxyServer.listen(
      { ...proxyConfig(), port: 0, discoveryPort: 0, prefillThreshold: 0, ...config },
      { ...options, version: '9.9.9', deadlines: { ...PROXY_DEADLINES, sweep: 50, ...deadlines } },
    );
    const proxy = new TestProxy(server, config?.apiKey?.[0] ?? 'none');
    open.push(server);
    return proxy;
  }

  get url(): string {
    return this.server.url;
  }

  /** Starts one instance of each type in `types`, one after the other, and waits until the proxy knows them. */
  async join(types: string, options: Partial<FakeInstanceOptions> = {}): Promise<FakeInstance[]> {
    const joined: FakeInstance[] = [];
    for (const type of types) {
      const discovery = this.server.discoveryAddress;
      const kind = type === 'P' ? 'P' : 'D';
      const instance = await FakeInstance.start({ type: kind, discovery, ...options });
      open.push(instance);
      joined.push(instance);
      await this.untilState(instance, 'ready');
    }
    return joined;
  }

  async instances(): Promise<InstanceInfo[]> {
    const headers = { authorization: `Bearer ${this.#apiKey}` };
    return InstanceList.parse(await (await fetch(`${this.url}/instances`, { headers })).json()).instances;
  }

  async stateOf({ httpAddress }: { readonly httpAddress: string }): Promise<string> {
    const found = (await this.instances()).find(({ http_address }) => http_address === httpAddress);
    return found?.state ?? 'unknown';
  }

  async untilState(instance: { readonly httpAddress: string }, state: string): Promise<void> {
    await until(async () => (await this.stateOf(instance)) === state);
  }

  /** Resolves when all is heard that an instance which has fallen silent has said before. */
  async untilSilent({ httpAddress }: { readonly httpAddress: string }): Promise<void> {
    await until(async () => {
      const found = (await this.instances()).find(({ http_address }) => http_address === httpAddress);
      return (found?.seconds_since_heartbeat ?? 0) > 1;
    });
  }

  /** POSTs JSON, or the text itself. */
  post(path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return fetch(`${this.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  }

  /** A metric, summed over those of its labels that are not given. */
  async metric(name: string, labels = ''): Promise<number> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const lines = text.split('\n').filter((line) => /^[^ {]+/.exec(line)?.[0] === `svc:proxy_${name}`);
    return lines
      .filter((line) => line.includes(labels))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }
}
