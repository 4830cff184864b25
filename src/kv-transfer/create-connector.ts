// The one place where the implementation of KV transfer is chosen; the engine calls it when its KV memory is there.

import type { KvTransferConfig } from '../config/kv-transfer-config.ts';
import type { ConnectorContext, KvConnector } from './connector.ts';
import { P2pConnector } from './p2p/p2p-connector.ts';

/**
 * Starts what `config` names.
 * @throws ConfigError where its address or port cannot be bound.
 */
export function createConnector(config: KvTransferConfig, context: ConnectorContext): Promise<KvConnector> {
  return P2pConnector.start(config, context);
}
