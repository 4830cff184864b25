// The content of GET /metrics: the engine's counters, read on each scrape, metrics of requests, cache settings and the
// process. Metrics with the name of the model have a registry for each server.

import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import type { EngineStats, InferenceEngine } from '../engine/inference-engine.ts';
import { processMetrics } from './process-metrics.ts';
import { RequestMetrics } from './request-metrics.ts';

type KvTransfer = NonNullable<EngineStats['kvTransfer']>;
type Speculation = NonNullable<EngineStats['speculation']>;
/** By name: what it counts, and where that is read. */
type Table<Stats> = Readonly<Record<string, [help: string, read: (stats: Stats) => number]>>;

const GAUGES: Table<EngineStats> = {
  num_requests_running: ['Requests that the engine computes', ({ running }) => running],
  num_requests_waiting: [
    'Requests that wait for a seat or for blocks',
    ({ waiting, heldBack }) => waiting + heldBack,
  ],
  num_requests_loading: ['Requests that wait for KV blocks of other instances', ({ loading }) => loading],
  kv_cache_usage_perc: [
    'Used share of the KV blocks, 1 is all',
    ({ freeBlocks, numBlocks }) => 1 - freeBlocks / numBlocks,
  ],
  kv_blocks_held: ['KV blocks that are kept for other instances', ({ heldBlocks }) => heldBlocks],
};

const COUNTERS: Table<EngineStats> = {
  prefix_cache_queries: ['Prompt tokens looked up in the prefix cache', (stats) => stats.prefixCacheQueries],
  prefix_cache_hits: ['Prompt tokens found in the prefix cache', (stats) => stats.prefixCacheHits],
  external_prefix_cache_queries: [
    'Prompt tokens that another instance was asked for',
    ({ externalCacheQueries }) => externalCacheQueries,
  ],
  external_prefix_cache_hits: [
    'Prompt tokens that came from another instance',
    ({ externalCacheHits }) => externalCacheHits,
  ],
  num_preemptions: ['Times that a request gave its blocks back', ({ preemptions }) => preemptions],
  prompt_tokens: ['Tokens of prompts', ({ promptTokens }) => promptTokens],
  prompt_tokens_cached: [
    'Tokens of prompts that were not computed here',
    ({ cachedPromptTokens, loadedPromptTokens }) => cachedPromptTokens + loadedPromptTokens,
  ],
  generation_tokens: [
    'Tokens sampled for answers, those behind a stop string included',
    ({ generationTokens }) => generationTokens,
  ],
};

/** By the value of the label. */
const PROMPT_SOURCES: Readonly<Record<string, (stats: EngineStats) => number>> = {
  local_compute: ({ promptTokens, cachedPromptTokens, loadedPromptTokens }) =>
    promptTokens - cachedPromptTokens - loadedPromptTokens,
  local_cache_hit: ({ cachedPromptTokens }) => cachedPromptTokens,
  external_kv_transfer: ({ loadedPromptTokens }) => loadedPromptTokens,
};
const WAIT_REASONS: Readonly<Record<string, (stats: EngineStats) => number>> = {
  capacity: ({ waiting }) => waiting,
  deferred: ({ loading, heldBack }) => loading + heldBack,
};

const TRANSFER_GAUGES: Table<KvTransfer> = {
  holding: ['Transfers whose blocks are kept for another instance', ({ send }) => send.holding],
  areas: ['Transfers that have a place in the receive memory', ({ receive }) => receive.receiveBuffers],
  buffer_used_bytes: ['Used part of kv_buffer_size', ({ receive }) => receive.bufferUsedBytes],
  pool_used_bytes: ['Used part of the overflow pool', ({ receive }) => receive.poolUsedBytes],
  peers: ['Instances with which a connection is open', ({ peers }) => peers],
};

const TRANSFER_COUNTERS: Table<KvTransfer> = {
  received_bytes: ['Bytes of KV blocks received', ({ receive }) => receive.bytes],
  delivered: ['Transfers that the other instance has', ({ send }) => send.delivered],
  expired: ['Transfers that nobody asked for in time', ({ send }) => send.expired],
  cancelled: ['Transfers that were cancelled', ({ send }) => send.cancelled],
  failed: ['Transfers that could not be sent', ({ send }) => send.failed],
  pushed: ['Transfers that another instance pushed', ({ receive }) => receive.pushed],
  pulled: ['Transfers that were pulled from another instance', ({ receive }) => receive.pulled],
  via_buffer: ['Transfers received into the buffer', ({ receive }) => receive.viaBuffer],
  via_pool: ['Transfers received into the overflow pool', ({ receive }) => receive.viaPool],
  loaded_tokens: ['Prompt tokens that were not computed here', ({ receive }) => receive.loadedTokens],
  corrupt_pieces: ['Pieces whose checksum was wrong', ({ receive }) => receive.corruptLayerBlocks],
};

const SPECULATION_COUNTERS: Table<Speculation> = {
  num_drafts: ['Drafts that were verified', ({ drafts }) => drafts],
  num_draft_tokens: ['Tokens of drafts', ({ draftTokens }) => draftTokens],
  num_accepted_tokens: ['Tokens of drafts that were right', ({ acceptedTokens }) => acceptedTokens],
};

/**
 * Counts from now on.
 * @returns what reads all of it, as text.
 */
export function serverMetrics(engine: InferenceEngine, modelName: string): () => Promise<string> {
  const engines = Array.from({ length: engine.numEngines }, (_, rank) => metricsOf(engine, rank, modelName));
  engine.observe(...engines.map(({ observer }) => observer));
  const settings = cacheSettings(engine);
  return async () => {
    for (const [rank, stats] of (await engine.statsByEngine()).entries()) engines[rank]!.latest = stats;
    const ofEngines = await Promise.all(engines.map(({ registry }) => registry.getMetricsAsJSON()));
    // A metric is one list of the values of all engines.
    const texts = [AggregatorRegistry.aggregate(ofEngines), settings, processMetrics()].map((each) =>
      each.metrics(),
    );
    return (await Promise.all(texts)).join('\n');
  };
}

interface EngineMetrics {
  readonly registry: Registry;
  readonly observer: RequestMetrics;
  /** What the next reader is shown. */
  latest: EngineStats | null;
}

function metricsOf(engine: InferenceEngine, rank: number, modelName: string): EngineMetrics {
  const registry = new Registry();
  registry.setDefaultLabels({ model_name: modelName, engine: String(rank) });
  const observer = new RequestMetrics(registry, engine.info.maxModelLen);
  const metrics: EngineMetrics = { registry, observer, latest: null };
  addAll(registry, '', GAUGES, COUNTERS, () => metrics.latest);
  addByLabel(registry, () => metrics.latest);
  if (engine.info.kvCompatibility !== null) addTransfer(registry, () => metrics.latest?.kvTransfer ?? null);
  if (engine.speculates) addSpeculation(registry, () => metrics.latest?.speculation ?? null);
  if (engine.adapters.maxLoras > 0) addAdapters(registry, engine, () => metrics.latest);
  return metrics;
}

/** They name the settings of each engine, whatever its model. */
function cacheSettings(engine: InferenceEngine): Registry {
  const registry = new Registry();
  const settings = engine.cacheSettings;
  const gauge = new Gauge({
    name: 'svc:cache_config_info',
    help: 'Settings of the KV cache, as labels',
    labelNames: ['engine', ...Object.keys(settings)],
    registers: [registry],
  });
  for (let rank = 0; rank < engine.numEngines; rank++) gauge.set({ engine: String(rank), ...settings }, 1);
  return registry;
}

/** Which adapters are at work, as labels; the value is when that was so. */
function addAdapters(registry: Registry, engine: InferenceEngine, latest: () => EngineStats | null): void {
  const { adapters } = engine;
  new Gauge({
    name: 'svc:lora_requests_info',
    help: 'Adapters of requests that run and that wait, as labels; the value is the time in Unix seconds',
    labelNames: ['max_lora', 'waiting_lora_adapters', 'running_lora_adapters'],
    registers: [registry],
    collect() {
      this.reset();
      const { runningAdapters = [], waitingAdapters = [] } = latest() ?? {};
      const labels = {
        max_lora: String(adapters.maxLoras),
        waiting_lora_adapters: adapters.namesOf(waitingAdapters).join(','),
        running_lora_adapters: adapters.namesOf(runningAdapters).join(','),
      };
      this.set(labels, Date.now() / 1000);
    },
  });
}

function addByLabel(registry: Registry, latest: () => EngineStats | null): void {
  const read = (stats: EngineStats | null, of: (stats: EngineStats) => number): number =>
    stats === null ? 0 : of(stats);
  new Gauge({
    name: 'svc:num_requests_waiting_by_reason',
    help: 'Requests that do not run: for want of room, or until something else has happened',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      for (const [reason, of] of Object.entries(WAIT_REASONS)) this.set({ reason }, read(latest(), of));
    },
  });
  new Counter({
    name: 'svc:prompt_tokens_by_source_total',
    help: 'Tokens of prompts by where their KV came from',
    labelNames: ['source'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [source, of] of Object.entries(PROMPT_SOURCES)) this.inc({ source }, read(latest(), of));
    },
  });
}

function addTransfer(registry: Registry, latest: () => KvTransfer | null): void {
  addAll(registry, 'kv_transfer_', TRANSFER_GAUGES, TRANSFER_COUNTERS, latest);
  new Counter({
    name: 'svc:kv_transfer_sent_bytes_total',
    help: 'Bytes of KV blocks sent, by transport',
    labelNames: ['transport'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [transport, bytes] of Object.entries(latest()?.send.bytesOver ?? {}))
        this.inc({ transport }, bytes);
    },
  });
  new Counter({
    name: 'svc:kv_transfer_recomputed_total',
    help: 'Prompts that were computed here after all, by reason',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [reason, count] of Object.entries(latest()?.receive.recomputed ?? {}))
        this.inc({ reason }, count);
    },
  });
}

function addSpeculation(registry: Registry, latest: () => Speculation | null): void {
  addAll(registry, 'spec_decode_', {}, SPECULATION_COUNTERS, latest);
  new Counter({
    name: 'svc:spec_decode_num_accepted_tokens_per_pos_total',
    help: 'Tokens of drafts that were right, by their place in the draft',
    labelNames: ['position'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [position, count] of (latest()?.acceptedPerPosition ?? []).entries())
        this.inc({ position: String(position) }, count);
    },
  });
}

/** @param latest what is read; null reads 0. */
function addAll<Stats>(
  registry: Registry,
  prefix: string,
  gauges: Table<Stats>,
  counters: Table<Stats>,
  latest: () => Stats | null,
): void {
  const reader = (read: (stats: Stats) => number) => (): number => {
    const stats = latest();
    return stats === null ? 0 : read(stats);
  };
  for (const [name, [help, read]] of Object.entries(gauges)) {
    addGauge(registry, prefix + name, help, reader(read));
  }
  for (const [name, [help, read]] of Object.entries(counters)) {
    addCounter(registry, prefix + name, help, reader(read));
  }
}

function addGauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name: `svc:${name}`,
    help,
    registers: [registry],
    collect() {
      this.set(read());
    },
  });
}

/** The engine counts; here the count is only shown. */
function addCounter(registry: Registry, name: string, help: string, read: () => number): void {
  new Counter({
    name: `svc:${name}_total`,
    help,
    registers: [registry],
    collect() {
      this.reset();
      this.inc(read());
    },
  });
}
