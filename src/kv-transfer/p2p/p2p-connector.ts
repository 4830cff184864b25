// kv_connector P2pNcclConnector: decides for each request whether its blocks go, come or neither, and connects the two
// sides with peers, native threads and the engine.

import { randomBytes } from 'node:crypto';
import { formatAddress } from '../../cluster/address.ts';
import { type PairedRequestId, parseRequestId } from '../../cluster/request-id.ts';
import { curveKeys } from '../../cluster/zmq.ts';
import { type KvTransferConfig, MOST_POOL_BYTES } from '../../config/kv-transfer-config.ts';
import { type BlockGroups, transferSize } from '../../kv-cache/block-groups.ts';
import { numKvRows } from '../../ops/kv-rows.ts';
import { bytes } from '../../util/bytes.ts';
import type { ConnectorContext, KvTransferStats, RequestTransfer, TransferRequest } from '../connector.ts';
import { KvConsumer } from './consumer-driver.ts';
import { DEADLINES, type Deadlines } from './deadlines.ts';
import {
  type Answer,
  identityOf,
  idOfKey,
  type MessageOf,
  promptHash,
  transferKey,
  type Unnumbered,
} from './messages.ts';
import { type BlockMover, NativeMover } from './native-mover.ts';
import { Notices } from './notices.ts';
import { type Peer, Peers, type PeersHandlers } from './peers.ts';
import { KvProducer } from './producer-driver.ts';
import { SlotPool } from './slot-pool.ts';
import type { PeerEvent } from './transfers.ts';

/** Transfers that are open at once, in both directions; requests beyond are ordinary ones. */
const MAX_OPEN = 4096;
/** The native threads number sends with 32 bits. */
const MAX_TRANSFER_ID = 2 ** 31 - 1;

export class P2pConnector {
  readonly #config: KvTransferConfig;
  readonly #groups: BlockGroups;
  readonly #address: string;
  readonly #mover: BlockMover;
  readonly #peers: Peers;
  readonly #notices: Notices;
  /** The two sides; what the engine thread tells of its sequences is for the consumer. */
  readonly producer: KvProducer;
  readonly consumer: KvConsumer;
  readonly #timer: NodeJS.Timeout;
  #lastTransferId = 0;
  #isClosed = false;

  private constructor(config: KvTransferConfig, context: ConnectorContext, deadlines: Deadlines) {
    const { compatibility, parts, engine, receiveRoom, warn = () => {} } = context;
    const { layerGroups, layerBlockBytes } = compatibility;
    const { ip, port, secret, sendType, bufferBytes } = config;
    const slotBytes = numKvRows(compatibility) * layerBlockBytes;
    const receives = config.role !== 'kv_producer';
    const poolBytes = config.poolBytes ?? Math.max(0, Math.min(MOST_POOL_BYTES, receiveRoom - bufferBytes));
    const slots = new SlotPool(receives ? bufferBytes : 0, receives ? poolBytes : 0, slotBytes);
    if (slots.bytes > receiveRoom) {
      warn(
        `kv_buffer_size and mem_pool_size_gb may take ${bytes(slots.bytes)}, more than the ${bytes(receiveRoom)} that are left beside the KV ` +
          'cache: they take memory as it is used, and the system may end the process when there is no more; lower one of them',
      );
    }
    if (receives && !slots.couldHold(1)) {
      warn(
        `kv_buffer_size ${bufferBytes} and mem_pool_size_gb have no room for one block of ${slotBytes} bytes: this instance ` +
          'receives nothing, and computes all prompts itself',
      );
    }
    this.#config = config;
    this.#groups = compatibility;
    this.#address = formatAddress(config);
    this.#mover = new NativeMover(
      {
        parts,
        layerGroups,
        receiveBytes: slots.bytes,
        deviceBytes: slots.bufferBytes,
        isOnGpu: context.isOnGpu ?? false,
        transport: config.transport,
        ncclChannels: config.ncclChannels,
        listenIp: receives ? ip : null,
        connectTimeoutMs: deadlines.answer,
        ncclTimeoutMs: deadlines.nccl,
        inform: context.inform ?? (() => {}),
      },
      (link) => this.producer.transfers.pushAll({ kind: 'linkDown', link }),
    );
    const epoch = randomBytes(8).toString('hex');
    const { endpoints } = this.#mover;
    const own = identityOf(compatibility, parts, { epoch, address: this.#address, endpoints });
    const reach = { ip, port, keys: curveKeys(secret), own, deadlines, mover: this.#mover };
    this.#peers = new Peers(reach, this.#peersHandlers(warn));
    this.#notices = new Notices(this.#peers, deadlines);
    const shared = { mover: this.#mover, peers: this.#peers, notices: this.#notices, deadlines, engine };
    this.producer = new KvProducer({
      ...shared,
      sendType,
      holdBytes: bufferBytes,
      slotBytes,
      groups: compatibility,
    });
    this.consumer = new KvConsumer({ ...shared, slots, groups: compatibility });
    this.#timer = setInterval(() => this.#sweep(), deadlines.sweep).unref();
  }

  /** @throws ConfigError where its address or port cannot be bound. */
  static async start(
    config: KvTransferConfig,
    context: ConnectorContext,
    deadlines: Deadlines = DEADLINES,
  ): Promise<P2pConnector> {
    const connector = new P2pConnector(config, context, deadlines);
    try {
      await connector.#peers.listen();
    } catch (error) {
      await connector.close();
      throw error;
    }
    return connector;
  }

  get stats(): KvTransferStats {
    return { send: this.producer.stats, receive: this.consumer.stats, peers: this.#peers.size };
  }

  /** Null for a request that has nothing to do with other instances. */
  open(request: TransferRequest): RequestTransfer | null {
    const id = parseRequestId(request.requestId);
    if (id === null || this.#isClosed) return null;
    const way = this.#wayOf(id);
    if (way === null || request.promptTokenIds.length < 2) return null;
    return way === 'send' ? this.#openSend(id, request) : this.#openLoad(id, request);
  }

  /** Gives up everything that belongs to this id of a proxy, here and at the other instance. */
  cancel(requestId: string): void {
    const id = parseRequestId(requestId);
    if (id === null) return;
    this.producer.cancel(id);
    this.consumer.cancel(id);
  }

  /** Says goodbye to the peers and frees everything. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.producer.close();
    this.consumer.close();
    this.#notices.close();
    const unbound = this.#peers.close();
    this.#isClosed = true;
    this.#mover.close();
    await unbound;
  }

  /** kv_both does what the addresses in the id say. */
  #wayOf({ prefill, decode }: PairedRequestId): 'send' | 'load' | null {
    const { role } = this.#config;
    const own = this.#address;
    const other = role === 'kv_producer' || (role === 'kv_both' && prefill === own) ? decode : prefill;
    if (other === own) return null;
    if (role === 'kv_producer') return 'send';
    if (role === 'kv_consumer') return 'load';
    if (prefill === own) return 'send';
    return decode === own ? 'load' : null;
  }

  #openSend(id: PairedRequestId, request: TransferRequest): RequestTransfer | null {
    const { promptTokenIds, extraKeys, promptIndex, numSamples, maxTokens } = request;
    const mostTokens = promptTokenIds.length - 1;
    // Where more than one token is made here, the block that the prompt does not fill is written to again.
    const numTokens = maxTokens === 1 ? mostTokens : mostTokens - (mostTokens % this.#groups.blockSize);
    if (numTokens === 0 || this.#isFull()) return null;
    const about = {
      transferId: this.#nextTransferId(),
      key: transferKey(id, promptIndex),
      address: id.decode,
      numTokens,
      numBlocks: transferSize(this.#groups, numTokens),
      hash: promptHash(promptTokenIds, extraKeys),
    };
    return this.producer.open(about, numSamples);
  }

  #openLoad(id: PairedRequestId, request: TransferRequest): RequestTransfer | null {
    const { promptTokenIds, extraKeys, promptIndex, numSamples, mayLoad } = request;
    const key = transferKey(id, promptIndex);
    if (!mayLoad || this.#isFull()) {
      this.consumer.discard(key, id.prefill);
      return null;
    }
    const about = { key, hash: promptHash(promptTokenIds, extraKeys), address: id.prefill };
    const transferIds = Array.from({ length: numSamples }, () => this.#nextTransferId());
    return this.consumer.open({ ...about, numTokens: promptTokenIds.length - 1 }, transferIds);
  }

  #isFull(): boolean {
    return this.producer.size + this.consumer.transfers.size >= MAX_OPEN;
  }

  #nextTransferId(): number {
    this.#lastTransferId = (this.#lastTransferId % MAX_TRANSFER_ID) + 1;
    return this.#lastTransferId;
  }

  #sweep(): void {
    this.producer.sweep();
    this.consumer.sweep();
    this.#peers.sweep(performance.now());
  }

  #peersHandlers(warn: (message: string) => void): PeersHandlers {
    return {
      warn,
      onRequest: (peer, message) =>
        message.type === 'pull' ? this.producer.onPull(peer, message) : this.#onReserve(peer, message),
      onNotice: (peer, notice) => {
        this.producer.onNotice(peer, notice);
        if (notice.type === 'cancel') this.consumer.onCancel(peer, notice.key);
      },
      onGone: (address) => this.#tellBoth(address, { kind: 'peerGone' }),
      onRestart: (address) => this.#tellBoth(address, { kind: 'peerRestarted' }),
    };
  }

  #tellBoth(address: string, event: PeerEvent): void {
    this.producer.transfers.pushToPeer(address, event);
    this.consumer.transfers.pushToPeer(address, event);
  }

  #onReserve(peer: Peer, message: MessageOf<'reserve'>): Unnumbered<Answer> {
    // Under which address this instance is known is the proxy's affair: a network may translate it.
    if (this.#config.role === 'kv_producer' || idOfKey(message.key)?.prefill !== peer.address) {
      return { type: 'refused', code: 'unasked', reason: `${message.key} is no transfer of ${peer.address}` };
    }
    return this.#isFull() ? { type: 'full' } : this.consumer.onReserve(peer, message);
  }
}
