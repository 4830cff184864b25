// What was chosen at start, for the person who started it. `svc serve` prints it once it answers.

import type { KvTransferConfig } from '../config/kv-transfer-config.ts';
import type { ServeConfig } from '../config/serve-config.ts';
import type { EngineInfo } from '../engine/inference-engine.ts';
import { formatAddress } from '../kv-transfer/address.ts';
import { version } from './version.ts';

export function startReport(config: ServeConfig, info: EngineInfo, port: number, seconds: number): string {
  const { host, apiKeys } = config.http;
  const address = `http://${printable(host)}:${port}`;
  const rows: readonly (readonly [string, string])[] = [
    ['model', `${info.model} (${info.architecture}, ${bytes(info.weightBytes)} of weights)`],
    ['dtype', info.dtype],
    ['backend', `${info.backend}: ${info.compute} (${info.backendReason})`],
    ['kv cache', `${info.numBlocks} blocks of ${info.blockSize} tokens`],
    [
      'concurrency',
      `${Number(info.maxConcurrency.toFixed(1))} requests of ${info.maxModelLen} tokens at once`,
    ],
    ['address', `${address}/v1${host === null ? ' (all interfaces)' : ''}`],
    ...kvTransferRows(config.engine.kvTransfer),
    ['api keys', apiKeys.length === 0 ? 'none: everybody may use the server' : `${apiKeys.length}`],
  ];
  const lines = rows.map(([name, value]) => `  ${name.padEnd(12)} ${value}`);
  const hint =
    config.model === null
      ? ['  No model was named: this is the small chat model that svc brings along. It knows little.']
      : [];
  return `${[`svc ${version()} is ready after ${seconds.toFixed(1)} s`, ...lines, ...hint].join('\n')}\n`;
}

/** For an instance of disaggregated serving. */
function kvTransferRows(transfer: KvTransferConfig | null): readonly (readonly [string, string])[] {
  if (transfer === null) return [];
  const { role, sendType, proxy } = transfer;
  const join = proxy === null ? 'no proxy' : `proxy ${formatAddress(proxy)}`;
  return [['kv transfer', `${role} at ${formatAddress(transfer)}, ${sendType}, ${join}`]];
}

function printable(host: string | null): string {
  if (host === null || host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}

function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${(count / 2 ** (10 * power)).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}
