// svc serve: options -> port -> model -> engine -> answers, and the way back when a signal comes or the engine dies.

import { randomBytes } from 'node:crypto';
import type { InstanceLoad } from '../cluster/discovery-message.ts';
import type { Registered, Registration } from '../cluster/registration.ts';
import { readConfigFile } from '../config/config-file.ts';
import { allowsAdapterUpdates, isDevMode } from '../config/environment.ts';
import { environmentNotices } from '../config/foreign-environment.ts';
import { type ForeignFlag, foreignNotice } from '../config/foreign-options.ts';
import type { KvTransferConfig } from '../config/kv-transfer-config.ts';
import { environmentOptions, mergeOptions, type OptionSource, serveConfig } from '../config/merge.ts';
import { mistypedVariables } from '../config/mistyped-environment.ts';
import { SERVE_OPTIONS } from '../config/options.ts';
import type { ServeConfig } from '../config/serve-config.ts';
import { InferenceEngine } from '../engine/inference-engine.ts';
import { type EngineThread, spawnEngineThread } from '../engine/spawn-engine.ts';
import { expectFreeAddress } from '../http/listen.ts';
import { readTls } from '../http/tls.ts';
import { downloadProgress } from '../hub/download-progress.ts';
import { expectFreeControlAddress } from '../kv-transfer/p2p/control-address.ts';
import { withFolders } from '../models/model-folder.ts';
import { startLoadProgress } from '../observability/load-progress.ts';
import { createLogger } from '../observability/log.ts';
import type { Tracing } from '../observability/tracing.ts';
import type { Server } from '../server/server.ts';
import { version } from '../util/version.ts';
import { within } from '../util/within.ts';
import { exit } from './exit.ts';
import { startReport } from './start-report.ts';
import { startTracing } from './start-tracing.ts';
import { drainServer, StopRequest } from './stop-request.ts';

type Logger = ReturnType<typeof createLogger>;

/** How long answers may take to say that the engine has died. */
const DEATH_NOTICE_MS = 2000;
/** The engine closes between two steps; one that takes longer hangs. */
const CLOSE_DEADLINE_MS = 30_000;
const STATS_INTERVAL_MS = 10_000;
/** After the start the vocabulary is made ready for constraints. */
const PREPARE_AFTER_MS = 2_000;

/** @throws ConfigError and NotAvailableError naming the option and the fix. */
export async function readConfig(
  flags: OptionSource,
  foreign: readonly ForeignFlag[] = [],
): Promise<ServeConfig> {
  const { env } = process;
  const notices = [...environmentNotices(env), ...mistypedVariables(env), ...foreign.map(foreignNotice)];
  const file = flags.get('config')?.value;
  const fromFile =
    typeof file === 'string'
      ? await readConfigFile(SERVE_OPTIONS, file, (flag) => notices.push(foreignNotice(flag)))
      : new Map();
  const config = serveConfig(mergeOptions(fromFile, environmentOptions(SERVE_OPTIONS, process.env), flags));
  return { ...config, notices: [...notices, ...config.notices] };
}

/**
 * Runs until a signal ends it, or the engine dies; the process exits with it.
 * @param thread reads its modules, and then the model, while this thread reads those of the server.
 */
export async function serve(config: ServeConfig, thread = spawnEngineThread()): Promise<void> {
  const logger = createLogger(config.logLevel);
  for (const notice of config.notices) logger.warn(notice);
  const stop = new StopRequest(logger);
  const {
    host: namedHost,
    tls: tlsFiles,
    logLevel,
    logStats,
    requestTimeoutSeconds,
    tracesEndpoint,
    ...http
  } = config.http;
  const ofEnvironment = { hasDevRoutes: isDevMode(), updatesAdapters: allowsAdapterUpdates() };
  const tracing = await startTracing(tracesEndpoint, 'svc');
  const host = namedHost ?? '0.0.0.0';
  const tls = tlsFiles && (await readTls(tlsFiles));
  // Fail on a busy port at once, not after many gigabytes have been loaded.
  await expectFreeAddress({ host, port: http.port });
  if (config.engine.kvTransfer !== null) await expectFreeControlAddress(config.engine.kvTransfer);
  const starting = startEngine(config, logger, thread);
  // Ignore: told below, once there is a server to close.
  starting.catch(() => {});
  const { Server } = await import('../server/server.ts');
  const proxyToken = randomBytes(16).toString('hex');
  const server = await Server.listen({
    ...http,
    ...config.answers,
    ...ofEnvironment,
    host,
    version: version(),
    statsIntervalMs: logStats ? STATS_INTERVAL_MS : 0,
    tls,
    requestTimeoutMs: requestTimeoutSeconds * 1000,
    proxyToken,
    exchangesKv: config.engine.kvTransfer !== null,
    tracing,
    logger: logger.child({}, { level: logLevel }),
  }).catch(async (error) => {
    await thread.worker.terminate();
    throw error;
  });
  const engine = await Promise.race([starting, stop.requested]).catch(async (error) => {
    await server.close();
    throw error;
  });
  let registration: Registration | null = null;
  if (engine !== null) {
    server.serve(engine);
    // Later, since it takes up to a second of a core, and the first requests often come at once.
    setTimeout(() => engine.constraints.prepare(), PREPARE_AFTER_MS).unref();
    const [name] = config.answers.servedModelNames;
    registration = await joinProxy(config.engine.kvTransfer, {
      model: name,
      proxyToken,
      keepsStates: engine.info.stateBlocks > 0,
      load: () => loadOf(engine),
      warn: (message) => logger.warn(message),
      inform: (message) => logger.info(message),
    });
    if (logger.isLevelEnabled('info')) {
      process.stderr.write(startReport(config, engine, server.port, process.uptime()));
    }
  }
  await untilTheEnd({ server, engine, registration, tracing }, stop, config, logger);
}

/** Null where the configuration names no proxy: ZeroMQ is loaded only for one. */
async function joinProxy(config: KvTransferConfig | null, about: Registered): Promise<Registration | null> {
  if (config === null || config.proxy === null) return null;
  const { Registration: Joined } = await import('../cluster/registration.ts');
  return Joined.start(config, about);
}

async function loadOf(engine: InferenceEngine): Promise<InstanceLoad> {
  const { running, waiting, loading, freeBlocks, numBlocks } = await engine.stats();
  return { running, waiting: waiting + loading, free_blocks: freeBlocks, num_blocks: numBlocks };
}

export async function startEngine(
  config: ServeConfig,
  logger: Logger,
  thread?: EngineThread,
): Promise<InferenceEngine> {
  const progress = await startLoadProgress((line) => logger.info(line));
  try {
    const local = await withFolders(config.engine, {
      onProgress: downloadProgress(progress.update),
    });
    return await InferenceEngine.start(local, {
      thread,
      onProgress: (fraction, what) => progress.update(fraction, what),
      onTransferError: (error) => logger.error({ err: error }, 'KV transfer failed'),
      onWarning: (message) => logger.warn(message),
      onInfo: (message) => logger.info(message),
    });
  } finally {
    progress.stop();
  }
}

interface Started {
  readonly server: Server;
  readonly engine: InferenceEngine | null;
  readonly registration: Registration | null;
  readonly tracing: Tracing | undefined;
}

/** Drains and closes on a signal; ends with code 1 when the engine has died. */
async function untilTheEnd(
  { server, engine, registration, tracing }: Started,
  stop: StopRequest,
  config: ServeConfig,
  logger: Logger,
): Promise<void> {
  const death = await Promise.race([stop.requested, ...(engine === null ? [] : [engine.died])]);
  if (death !== null) {
    logger.error(death.message);
    registration?.close();
    await server.drain(DEATH_NOTICE_MS);
    await exit(1, logger);
  }
  // The proxy sends nothing new from now on.
  registration?.drain();
  await drainServer(server, config.shutdownTimeoutSeconds, logger);
  registration?.close();
  const closing = Promise.all([engine?.close(), tracing?.stop()]).then(() => {});
  await within(CLOSE_DEADLINE_MS, closing);
  // An engine that was still loading would hold the process.
  await exit(0, logger);
}
