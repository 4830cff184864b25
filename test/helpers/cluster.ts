// A proxy with producers and consumers, each a real process on loopback: what the tests of disaggregated serving kill,
// stop and talk to.

import { z } from 'zod';
import type { SendType, TransportChoice } from '../../src/config/kv-transfer-config.ts';
import type { Wiretap } from '../disagg/tampering-proxy.ts';
import { freePort, type SvcProcess, spawnSvc, waitUntilReady } from './svc-process.ts';

export interface ClusterOptions {
  readonly model: string;
  readonly producers: number;
  /** How many, or what is particular to each. */
  readonly consumers: number | readonly OwnConfig[];
  readonly sendType?: SendType;
  readonly transport?: TransportChoice;
  /** Fields that replace or join those of every --kv-transfer-config. */
  readonly kvTransfer?: Readonly<Record<string, unknown>>;
  readonly extraConfig?: Readonly<Record<string, unknown>>;
  /** More options of every instance, and of the proxy. */
  readonly serveArgs?: readonly string[];
  readonly proxyArgs?: readonly string[];
  /** More options of the producers alone, and of the consumers. */
  readonly producerArgs?: readonly string[];
  readonly consumerArgs?: readonly string[];
  /** Of every instance. */
  readonly env?: NodeJS.ProcessEnv;
  /** All that the instances say to each other passes it. */
  readonly tap?: Wiretap;
}

/** Fields of the --kv-transfer-config of one instance. */
export interface OwnConfig {
  readonly kv_buffer_size?: number;
  readonly extra?: Readonly<Record<string, unknown>>;
}

export interface Instance extends SvcProcess {
  readonly httpAddress: string;
}

const InstanceList = z.object({
  instances: z.array(z.object({ type: z.enum(['P', 'D']), http_address: z.string(), state: z.string() })),
});

export class Cluster {
  readonly proxy: SvcProcess;
  readonly producers: Instance[] = [];
  readonly consumers: Instance[] = [];
  readonly #options: ClusterOptions;
  readonly #discoveryPort: number;

  private constructor(proxy: SvcProcess, discoveryPort: number, options: ClusterOptions) {
    this.proxy = proxy;
    this.#discoveryPort = discoveryPort;
    this.#options = options;
  }

  /** Everything is started and known to the proxy when this resolves. */
  static async start(options: ClusterOptions): Promise<Cluster> {
    const [port, discoveryPort] = [await freePort(), await freePort()];
    const ports = ['--port', String(port), '--discovery-port', String(discoveryPort)];
    const proxy = spawnSvc(['proxy', ...ports, ...(options.proxyArgs ?? [])], port);
    const registerAt = (await options.tap?.addDiscovery(discoveryPort)) ?? discoveryPort;
    const cluster = new Cluster(proxy, registerAt, options);
    for (let index = 0; index < options.producers; index += 1) await cluster.spawn('kv_producer');
    const { consumers } = options;
    const own = typeof consumers === 'number' ? Array.from({ length: consumers }, () => ({})) : consumers;
    for (const one of own) await cluster.spawn('kv_consumer', one);
    try {
      await cluster.untilReady();
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  get url(): string {
    return this.proxy.url;
  }

  get instances(): readonly Instance[] {
    return [...this.producers, ...this.consumers];
  }

  /** Starts one more instance, and does not wait for it. */
  async spawn(role: 'kv_producer' | 'kv_consumer', { extra, ...own }: OwnConfig = {}): Promise<Instance> {
    const [port, kvPort] = [await freePort(), await freePort()];
    const { model, sendType, transport, kvTransfer, extraConfig, env, tap } = this.#options;
    await tap?.addDoor(await freePort(), `127.0.0.1:${kvPort}`);
    const { serveArgs = [], producerArgs = [], consumerArgs = [] } = this.#options;
    const config = {
      kv_connector: 'P2pNcclConnector',
      kv_role: role,
      kv_port: kvPort,
      ...kvTransfer,
      ...own,
      kv_connector_extra_config: {
        proxy_ip: '127.0.0.1',
        proxy_port: String(this.#discoveryPort),
        http_port: String(port),
        mem_pool_size_gb: 0.25,
        ...(sendType && { send_type: sendType }),
        ...(transport && { transport }),
        ...extraConfig,
        ...extra,
      },
    };
    const more = [...serveArgs, ...(role === 'kv_producer' ? producerArgs : consumerArgs)];
    const threads = more.includes('--num-threads') ? [] : ['--num-threads', '1'];
    const args = ['serve', model, '--host', '127.0.0.1', '--port', String(port), ...threads];
    const svc = spawnSvc([...args, '--kv-transfer-config', JSON.stringify(config), ...more], port, env);
    const instance = { ...svc, httpAddress: `127.0.0.1:${port}` };
    (role === 'kv_producer' ? this.producers : this.consumers).push(instance);
    return instance;
  }

  /** Resolves when the proxy lists every living instance as ready. */
  async untilReady(): Promise<void> {
    const alive = this.instances.filter(isAlive);
    for (const instance of alive) await waitUntilReady(instance);
    await waitUntilReady(this.proxy, async () => {
      const ready = await this.readyAddresses();
      return alive.every(({ httpAddress }) => ready.includes(httpAddress));
    });
  }

  async readyAddresses(): Promise<string[]> {
    const instances = await readInstances(this.url);
    return instances.filter(({ state }) => state === 'ready').map(({ http_address }) => http_address);
  }

  async stop(): Promise<void> {
    for (const { child } of this.instances) if (child.signalCode === null) child.kill('SIGCONT');
    await Promise.all([...this.instances, this.proxy].map((svc) => svc.stop()));
  }
}

export function isAlive({ child }: SvcProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

/** What the proxy at `url` knows; nothing where it does not answer. */
export async function readInstances(url: string): Promise<z.output<typeof InstanceList>['instances']> {
  const response = await fetch(`${url}/instances`).catch(() => null);
  if (response?.status !== 200) return [];
  return InstanceList.parse(await response.json()).instances;
}

/** The counters and gauges of an instance's /metrics, summed over their labels, and each with them. */
export async function readMetrics(url: string): Promise<Map<string, number>> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const metrics = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, name = '', labels = '', value = ''] = /^([\w:]+)(\{.*\})? (\S+)$/.exec(line) ?? [];
    if (name === '') continue;
    if (labels !== '') metrics.set(name + labels, Number(value));
    metrics.set(name, (metrics.get(name) ?? 0) + Number(value));
  }
  return metrics;
}

/** Over which the instance at `url` has sent blocks. */
export async function transportsOf(url: string): Promise<string[]> {
  const sent = [...(await readMetrics(url))].filter(([name]) =>
    name.startsWith('svc:kv_transfer_sent_bytes_total{'),
  );
  return sent.flatMap(([name, bytes]) => (bytes > 0 ? [/transport="([^"]+)"/.exec(name)?.[1] ?? ''] : []));
}
