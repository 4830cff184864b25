// Moving KV blocks between two instances of this process: shared memory against memcpy, TCP against plain sockets, each
// measured in turns with what it is held against, and what is left of a transfer when its last layer is computed.

import { setTimeout as sleep } from 'node:timers/promises';
import { loadNative } from '../src/native/native.ts';
import type {
  NativeKvMemory,
  NativeTransferEngine,
  NativeTransferEvent,
} from '../src/native/native-transfer.ts';
import { type Figure, median, type Section } from './report.ts';

/** qwen2.5-0.5b in bf16: 2 heads of 64 keys and values, 16 tokens a block. */
const [LAYERS, PIECE_BYTES] = [24, 8192];
const PROMPT = { tokens: 2048, blocks: 128 };
/** Far more than the caches hold: 200 MB. */
const SPEED_BLOCKS = 1024;
const SOCKETS = 2;
const REPEATS = 9;
/** A layer of a prefill takes longer than moving its blocks. */
const LAYER_MS = 3;
/** What iperf3 sends again and again. */
const HOT_BYTES = 128 * 1024;

type Kind = 'shm' | 'tcp';

export async function transferSection(): Promise<Section> {
  // Transfer engines keep no process alive, and nothing else is waited for.
  const alive = setInterval(() => {}, 1000);
  try {
    const figures = [...(await measureSpeed()), ...(await measureLatency())];
    return { title: 'KV transfer, native threads of one process', figures, notes: NOTES };
  } finally {
    clearInterval(alive);
  }
}

const NOTES = [
  'Speed: from the grant to the event that says all pieces are there and intact, checksums on both sides included, into ' +
    'memory that was written before. The limit of shm is one memcpy of as many bytes by one thread; that of TCP, where one ' +
    'thread sends and one receives too, is one plain blocking socket with a thread at each end, from and to as much ' +
    `memory, as iperf3 measures. Medians of ${REPEATS} turns.`,
  `Latency: a prompt of ${PROMPT.tokens} tokens, ${(LAYERS * PROMPT.blocks * PIECE_BYTES) / 1e6} MB.`,
];

/** All in turns, so that what else the machine does hits each alike. */
async function measureSpeed(): Promise<Figure[]> {
  const native = loadNative();
  const bytes = LAYERS * SPEED_BLOCKS * PIECE_BYTES;
  const memcpy: number[] = [];
  const byShm: number[] = [];
  const plain: number[] = [];
  const manyPlain: number[] = [];
  const hot: number[] = [];
  const byTcp: number[] = [];
  const [shm, tcp] = [await openPair('shm', SPEED_BLOCKS), await openPair('tcp', SPEED_BLOCKS)];
  for (const pair of [shm, tcp]) await pair.moveAll();
  for (let repeat = 0; repeat < REPEATS; repeat += 1) {
    memcpy.push(native.copyBandwidth(bytes));
    byShm.push(bytes / (await shm.moveAll()).received);
    plain.push(native.socketBandwidth(bytes, bytes, 1));
    manyPlain.push(native.socketBandwidth(bytes, bytes / SOCKETS, SOCKETS));
    hot.push(native.socketBandwidth(bytes, HOT_BYTES, SOCKETS));
    byTcp.push(bytes / (await tcp.moveAll()).received);
  }
  for (const pair of [shm, tcp]) pair.close();
  const speed = (
    name: string,
    rates: readonly number[],
    limits: readonly number[] | null,
    goal: string | null,
  ) => ({
    name,
    value: median(rates) / 1e9,
    unit: 'GB/s',
    limit: limits === null ? null : median(limits) / 1e9,
    goal,
  });
  return [
    speed('shm', byShm, memcpy, '>= 60 %'),
    speed(`tcp, ${SOCKETS} sockets`, byTcp, plain, '>= 80 %'),
    speed(`${SOCKETS} plain sockets, ${2 * SOCKETS} threads`, manyPlain, null, null),
    speed('the same out of 128 KiB in the cache', hot, null, null),
  ];
}

async function measureLatency(): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const kind of ['shm', 'tcp'] as const) {
    const pair = await openPair(kind, PROMPT.blocks);
    await pair.moveAll();
    const layered: { readonly received: number; readonly loaded: number }[] = [];
    const whole: { readonly received: number; readonly loaded: number }[] = [];
    for (let repeat = 0; repeat < REPEATS; repeat += 1) {
      layered.push(await pair.moveLayerByLayer());
      whole.push(await pair.moveAll());
    }
    pair.close();
    const row = (name: string, seconds: readonly number[]): Figure => ({
      name: `${kind}: ${name}`,
      value: 1000 * median(seconds),
      unit: 'ms',
      limit: null,
      goal: null,
    });
    figures.push(
      row(
        'layer by layer, last layer fed to received',
        layered.map(({ received }) => received),
      ),
      row(
        'layer by layer, last layer fed to loaded',
        layered.map(({ loaded }) => loaded),
      ),
      row(
        'all at once, granted to received',
        whole.map(({ received }) => received),
      ),
      row(
        'received to loaded',
        whole.map(({ loaded }) => loaded),
      ),
    );
  }
  return figures;
}

/** A sender and a receiver, with a link between them. */
class Pair {
  readonly #blocks: Int32Array;
  readonly #sender: Instance;
  readonly #receiver: Instance;
  readonly #link: number;
  #send = 0;

  constructor(numBlocks: number, sender: Instance, receiver: Instance, link: number) {
    this.#blocks = Int32Array.from({ length: numBlocks }, (_, index) => index);
    this.#sender = sender;
    this.#receiver = receiver;
    this.#link = link;
  }

  /** Everything is fed before it is granted. @returns seconds of the two parts. */
  async moveAll(): Promise<{ readonly received: number; readonly loaded: number }> {
    const { send, ticket } = this.#open();
    this.#feedStep(send);
    for (let layer = 0; layer < LAYERS; layer += 1) this.#sender.memory.onKvLayerSaved(layer);
    const startedAt = performance.now();
    this.#sender.engine.grant(send, this.#link, ticket, 0);
    await this.#receiver.next('received');
    const receivedAt = performance.now();
    this.#receiver.engine.load(send, ticket, 0, this.#blocks);
    const { isIntact } = await this.#receiver.next('loaded');
    const loadedAt = performance.now();
    if (!isIntact) throw new Error('what was received is not what was sent');
    await this.#close(send, ticket);
    return { received: (receivedAt - startedAt) / 1000, loaded: (loadedAt - receivedAt) / 1000 };
  }

  /** The blocks are asked for before any has come. @returns seconds from feeding the last layer on, of both. */
  async moveLayerByLayer(): Promise<{ readonly received: number; readonly loaded: number }> {
    const { send, ticket } = this.#open();
    this.#receiver.engine.load(send, ticket, 0, this.#blocks);
    this.#sender.engine.grant(send, this.#link, ticket, 0);
    this.#feedStep(send);
    for (let layer = 0; layer < LAYERS - 1; layer += 1) {
      this.#sender.memory.onKvLayerSaved(layer);
      await sleep(LAYER_MS);
    }
    const startedAt = performance.now();
    this.#sender.memory.onKvLayerSaved(LAYERS - 1);
    const [receivedAt, loadedAt] = await Promise.all([
      this.#receiver.next('received').then(() => performance.now()),
      this.#receiver.next('loaded').then(() => performance.now()),
    ]);
    await this.#close(send, ticket);
    return { received: (receivedAt - startedAt) / 1000, loaded: (loadedAt - startedAt) / 1000 };
  }

  close(): void {
    this.#sender.engine.close();
    this.#receiver.engine.close();
  }

  #open(): { readonly send: number; readonly ticket: bigint } {
    this.#send += 1;
    const ticket = BigInt(this.#send);
    const slotBytes = LAYERS * PIECE_BYTES;
    const offsets = Float64Array.from(this.#blocks, (index) => index * slotBytes);
    this.#receiver.engine.openReceive(ticket, 0, offsets);
    this.#sender.engine.openSend(this.#send, this.#blocks.length);
    return { send: this.#send, ticket };
  }

  #feedStep(send: number): void {
    this.#sender.memory.onKvStep(Int32Array.from([send, 0, this.#blocks.length, ...this.#blocks]));
  }

  async #close(send: number, ticket: bigint): Promise<void> {
    this.#sender.engine.closeSend(send);
    this.#receiver.engine.closeReceive(ticket);
    await Promise.all([this.#sender.next('sendClosed'), this.#receiver.next('receiveClosed')]);
  }
}

async function openPair(kind: Kind, numBlocks: number): Promise<Pair> {
  const [sender, receiver] = [new Instance(numBlocks, 0), new Instance(numBlocks, numBlocks)];
  const piece = new Uint8Array(PIECE_BYTES);
  for (let layer = 0; layer < LAYERS; layer += 1) {
    for (let block = 0; block < numBlocks; block += 1) {
      sender.memory.write(layer, block, piece.fill(layer * 31 + block));
    }
  }
  const link = sender.engine.connect(kind, receiver.engine.endpoints[kind] ?? '', SOCKETS);
  await sender.next('linkUp');
  return new Pair(numBlocks, sender, receiver, link);
}

/** KV memory and its transfer engine. */
class Instance {
  readonly memory: NativeKvMemory;
  readonly engine: NativeTransferEngine;
  readonly #waiting = new Map<string, (event: NativeTransferEvent) => void>();

  constructor(numBlocks: number, receiveBlocks: number) {
    const { KvMemory, TransferEngine } = loadNative();
    this.memory = new KvMemory(LAYERS, numBlocks, PIECE_BYTES);
    const receiveBytes = receiveBlocks * LAYERS * PIECE_BYTES;
    const token = this.memory.share();
    const part = { token, layers: { first: 0, end: LAYERS }, heads: { first: 0, end: 1 } };
    const options = { receiveBytes, tcp: { host: '127.0.0.1', port: 0 }, shm: true };
    this.engine = new TransferEngine([part], options, (events) => {
      for (const event of events) {
        this.#waiting.get(event.type)?.(event);
        this.#waiting.delete(event.type);
      }
    });
  }

  /** The next event of this type, which has not come yet. */
  next<T extends NativeTransferEvent['type']>(type: T): Promise<Extract<NativeTransferEvent, { type: T }>> {
    return new Promise((resolve) => {
      this.#waiting.set(type, (event) => resolve(event as Extract<NativeTransferEvent, { type: T }>));
    });
  }
}
