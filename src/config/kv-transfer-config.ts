// What --kv-transfer-config asks for, checked: the roles, addresses and sizes of an instance that exchanges KV blocks.

export type KvRole = 'kv_producer' | 'kv_consumer' | 'kv_both';
export type SendType = 'PUT' | 'GET' | 'PUT_ASYNC';
export type TransportChoice = 'auto' | 'shm' | 'tcp';

export interface KvTransferConfig {
  readonly connector: 'P2pNcclConnector';
  readonly role: KvRole;
  readonly engineId: string;
  /** Address that control channel and data listener bind to and that peers are told. */
  readonly ip: string;
  readonly port: number;
  /** Bytes of the receive buffer of D, and what P holds in GET. */
  readonly bufferBytes: number;
  /** Bytes of the overflow pool; a power of two, or 0 for none. */
  readonly poolBytes: number;
  readonly sendType: SendType;
  readonly transport: TransportChoice;
  /** Discovery listener of the proxy; null serves without one. */
  readonly proxy: { readonly ip: string; readonly port: number } | null;
  readonly httpPort: number | null;
  /** Shared by all instances and the proxy; null lets everybody who reaches the ports join. */
  readonly secret: string | null;
}
