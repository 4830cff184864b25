// kv_connector P2pNcclConnector: decides for each request whether its blocks go, come or neither, and wires the two
// sides to peers, native threads and the engine. create-connector.ts makes one an instance.

import { randomBytes } from 'node:crypto';
import { formatAddress } from '../../cluster/address.ts';
import { curveKeys } from '../../cluster/curve.ts';
import { type PairedRequestId, parseRequestId } from '../../cluster/request-id.ts';
import type { KvTransferConfig } from '../../config/kv-transfer-config.ts';
import type {
  ConnectorContext,
  KvConnector,
  KvTransferStats,
  RequestTransfer,
  TransferNotice,
  TransferRequest,
} from '../connector.ts';
import { KvConsumer } from './consumer-driver.ts';
import { DEADLINES, type Deadlines } from './deadlines.ts';
import { identityOf } from './identity.ts';
import { Links } from './links.ts';
import type { Answer, MessageOf, Unnumbered } from './messages.ts';
import { NativeMover } from './native-mover.ts';
import type { Peer } from './peer.ts';
import { type PeerHandlers, Peers } from './peers.ts';
import { KvProducer } from './producer-driver.ts';
import { SlotPool } from './slot-pool.ts';
import { idOfKey, promptHash, transferKey } from './transfer-key.ts';

/** Transfers that are open at once, in both directions; requests beyond are ordinary ones. */
const MAX_OPEN = 4096;
/** The native threads number sends with 32 bits. */
const MAX_TRANSFER_ID = 2 ** 31 - 1;

/** The parts of a connector, those that come later null until they are there. */
interface Parts {
  readonly address: string;
  readonly mover: NativeMover;
  readonly peers: Peers;
  readonly links: Links;
  readonly producer: KvProducer;
  readonly consumer: KvConsumer;
}

export class P2pConnector implements KvConnector {
  readonly #config: KvTransferConfig;
  readonly #blockSize: number;
  readonly #parts: Parts;
  readonly #timer: NodeJS.Timeout;
  #lastTransferId = 0;
  #isClosed = false;

  private constructor(config: KvTransferConfig, context: ConnectorContext, sweep: number, parts: Parts) {
    this.#config = config;
    this.#blockSize = context.geometry.blockSize;
    this.#parts = parts;
    this.#timer = setInterval(() => this.#sweep(), sweep).unref();
  }

  /** @throws ConfigError where its address or port cannot be bound. */
  static async start(
    config: KvTransferConfig,
    context: ConnectorContext,
    deadlines: Deadlines = DEADLINES,
  ): Promise<P2pConnector> {
    const { geometry, memoryToken, order, warn = () => {} } = context;
    const slotBytes = geometry.layers * geometry.pieceBytes;
    const listens = config.role !== 'kv_producer';
    const slots = listens
      ? new SlotPool(config.bufferBytes, config.poolBytes, slotBytes)
      : new SlotPool(0, 0, slotBytes);
    const late: { parts: Parts | null } = { parts: null };
    const { ip, port, transport } = config;
    const receiveBytes = slots.bytes;
    const listenIp = listens ? ip : null;
    const connectTimeoutMs = deadlines.answer;
    const mover = new NativeMover(
      { memoryToken, receiveBytes, transport, listenIp, connectTimeoutMs },
      {
        sent: (transferId) => late.parts?.producer.sent(transferId),
        received: (ticket) => late.parts?.consumer.received(ticket),
        corrupt: (ticket) => late.parts?.consumer.corrupt(ticket),
        linkDown: (link) => {
          late.parts?.links.down(link);
          late.parts?.producer.linkDown(link);
        },
      },
    );
    const address = formatAddress(config);
    const epoch = randomBytes(8).toString('hex');
    const own = identityOf(geometry, { epoch, address, endpoints: mover.endpoints });
    const keys = config.secret === null ? null : curveKeys(config.secret);
    try {
      const peers = await Peers.open({ ip, port, keys }, own, deadlines, handlers(late, config, warn));
      const links = new Links(mover);
      const shared = { mover, peers, deadlines, order };
      const { sendType, bufferBytes: holdBytes } = config;
      const producer = new KvProducer({ ...shared, links, sendType, holdBytes, slotBytes });
      const consumer = new KvConsumer({ ...shared, slots, blockSize: geometry.blockSize });
      late.parts = { address, mover, peers, links, producer, consumer };
      return new P2pConnector(config, context, deadlines.sweep, late.parts);
    } catch (error) {
      mover.close();
      throw error;
    }
  }

  get stats(): KvTransferStats {
    const { mover, peers, producer, consumer } = this.#parts;
    return {
      send: { ...producer.ended, bytes: mover.bytesSent, holding: producer.size },
      receive: consumer.stats,
      peers: peers.size,
    };
  }

  open(request: TransferRequest): RequestTransfer | null {
    const id = parseRequestId(request.requestId);
    if (id === null || this.#isClosed) return null;
    const way = this.#wayOf(id);
    if (way === null || request.promptTokenIds.length < 2) return null;
    return way === 'send' ? this.#openSend(id, request) : this.#openLoad(id, request);
  }

  notice(notice: TransferNotice): void {
    this.#parts.consumer.notice(notice);
  }

  delivered(): Promise<void> {
    return this.#parts.producer.delivered();
  }

  cancel(requestId: string): void {
    const id = parseRequestId(requestId);
    if (id === null) return;
    this.#parts.producer.cancel(id);
    this.#parts.consumer.cancel(id);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    const { producer, consumer, peers, mover } = this.#parts;
    clearInterval(this.#timer);
    producer.close();
    consumer.close();
    const unbound = peers.close();
    this.#isClosed = true;
    mover.close();
    await unbound;
    // What waited for the native threads is told that they have ended.
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** kv_both does what the addresses in the id say. */
  #wayOf({ prefill, decode }: PairedRequestId): 'send' | 'load' | null {
    const { role } = this.#config;
    const own = this.#parts.address;
    const other = role === 'kv_producer' || (role === 'kv_both' && prefill === own) ? decode : prefill;
    if (other === own) return null;
    if (role === 'kv_producer') return 'send';
    if (role === 'kv_consumer') return 'load';
    if (prefill === own) return 'send';
    return decode === own ? 'load' : null;
  }

  #openSend(id: PairedRequestId, request: TransferRequest): RequestTransfer | null {
    const { promptTokenIds, promptIndex, numSamples, maxTokens } = request;
    const mostTokens = promptTokenIds.length - 1;
    // Where more than one token is made here, the block that the prompt does not fill is written to again.
    const numTokens = maxTokens === 1 ? mostTokens : mostTokens - (mostTokens % this.#blockSize);
    if (numTokens === 0 || this.#isFull()) return null;
    const about = {
      transferId: this.#nextTransferId(),
      key: transferKey(id, promptIndex),
      address: id.decode,
      numTokens,
      numBlocks: Math.ceil(numTokens / this.#blockSize),
      hash: promptHash(promptTokenIds),
    };
    return this.#parts.producer.open(about, numSamples);
  }

  #openLoad(id: PairedRequestId, request: TransferRequest): RequestTransfer | null {
    const { promptTokenIds, promptIndex, numSamples, mayLoad } = request;
    const key = transferKey(id, promptIndex);
    if (!mayLoad || this.#isFull()) {
      this.#parts.consumer.discard(key, id.prefill);
      return null;
    }
    const about = { key, hash: promptHash(promptTokenIds), address: id.prefill };
    const transferIds = Array.from({ length: numSamples }, () => this.#nextTransferId());
    return this.#parts.consumer.open({ ...about, numTokens: promptTokenIds.length - 1 }, transferIds);
  }

  #isFull(): boolean {
    return isFull(this.#parts);
  }

  #nextTransferId(): number {
    this.#lastTransferId = (this.#lastTransferId % MAX_TRANSFER_ID) + 1;
    return this.#lastTransferId;
  }

  #sweep(): void {
    const { producer, consumer, peers } = this.#parts;
    producer.sweep();
    consumer.sweep();
    peers.sweep(Date.now());
  }
}

function isFull({ producer, consumer }: Parts): boolean {
  return producer.size + consumer.size >= MAX_OPEN;
}

/** What peers say, to the side that it is for. */
function handlers(
  late: { readonly parts: Parts | null },
  { role }: KvTransferConfig,
  warn: (message: string) => void,
): PeerHandlers {
  return {
    asked: (peer, message) =>
      late.parts === null
        ? { type: 'refused', code: 'bound', reason: 'this instance is starting' }
        : answerOf(late.parts, role, peer, message),
    told: (peer, { type, key }) => {
      if (type === 'received') late.parts?.producer.received(peer, key);
      else {
        late.parts?.producer.cancelled(peer, key);
        late.parts?.consumer.cancelled(peer, key);
      }
    },
    gone: (address) => {
      late.parts?.producer.gone(address);
      late.parts?.consumer.gone(address);
    },
    restarted: (address) => {
      late.parts?.links.close(address);
      late.parts?.producer.restarted(address);
      late.parts?.consumer.restarted(address);
    },
    closed: (address) => late.parts?.links.close(address),
    warn,
  };
}

function answerOf(
  parts: Parts,
  role: KvTransferConfig['role'],
  peer: Peer,
  message: MessageOf<'reserve' | 'pull'>,
): Unnumbered<Answer> {
  if (message.type === 'pull') return parts.producer.pulled(peer, message);
  // Under which address this instance is known is the proxy's affair: a network may translate it.
  if (role === 'kv_producer' || idOfKey(message.key)?.prefill !== peer.address) {
    return { type: 'refused', code: 'unasked', reason: `${message.key} is no transfer of ${peer.address}` };
  }
  return isFull(parts) ? { type: 'full' } : parts.consumer.reserved(peer, message);
}
