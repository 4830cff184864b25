// How fast blocks go from the memory of this process into that of another, both on one GPU, and whether they come as they were.

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { addonPath, loadNative } from '../../src/native/native.ts';
import type { NativeTransferEvent, Transport } from '../../src/native/native-transfer.ts';
import { median } from '../report.ts';
import { ROOT } from './gpu.ts';
import { measured, type Result } from './result.ts';

export interface KvShape {
  readonly layers: number;
  readonly blocks: number;
  readonly layerBlockBytes: number;
}

/** The library of NCCL is '' where none is needed. */
export interface GpuLibraries {
  readonly driver: string;
  readonly kernels: string;
  readonly nccl: string;
}

const CHILD = `${ROOT}/test/helpers/transfer-child.mjs`;
const SOCKETS = 2;
/** The first transfer makes what the others use again. */
const TRANSFERS = 10;
const PATIENCE_MS = 12_000;
const LOCAL = { host: '127.0.0.1', port: 0 };

/** @throws Error where a transfer does not end, or another one came than was sent. */
export async function measureTransfers(
  kind: Transport,
  shape: KvShape,
  gpu: GpuLibraries,
  otherEnv: NodeJS.ProcessEnv = {},
): Promise<Result> {
  const receiver = new Receiver(shape, gpu, otherEnv);
  const sender = new Sender(shape, gpu);
  try {
    await sender.connect(kind, (await receiver.next('listening'))[kind] ?? '');
    const seconds: number[] = [];
    const untilSent: number[] = [];
    for (let ticket = 1; ticket <= TRANSFERS; ticket += 1) {
      receiver.order({ do: 'receive', count: shape.blocks, ticket });
      await receiver.next('done');
      sender.save(ticket);
      const startedAt = now();
      sender.grant(ticket);
      const { at } = await receiver.next('received', sender);
      seconds.push(at / 1e9 - startedAt);
      untilSent.push((await sender.sent()) - startedAt);
      await sender.close(ticket);
    }
    const [first, ...others] = seconds;
    const bytes = shape.layers * shape.blocks * shape.layerBlockBytes;
    const notes = [
      `${(bytes / 1e6).toFixed(0)} MB, each byte counted once`,
      `in ms: all was sent after ${ms(median(untilSent.slice(1)))}`,
      `received after ${ms(median(others))}, at best ${ms(Math.min(...others))}`,
      `of the first transfer ${ms(first ?? 0)}`,
    ];
    return measured(`${kind}: process to process`, bytes / median(others) / 1e9, 'GB/s', {
      note: notes.join(', '),
    });
  } finally {
    sender.end();
    await receiver.end();
  }
}

/** In seconds, by a clock that all processes of a host have. */
function now(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

function ms(seconds: number): string {
  return (1000 * seconds).toFixed(3);
}

/** Its memory is full of numbers that differ. */
class Sender {
  readonly #shape: KvShape;
  readonly #events: NativeTransferEvent[] = [];
  #sentAt = 0;
  readonly #memory;
  readonly #engine;
  #link = 0;

  constructor(shape: KvShape, { driver, kernels, nccl }: GpuLibraries) {
    const { KvMemory, TransferEngine } = loadNative();
    this.#shape = shape;
    const { layers, blocks, layerBlockBytes } = shape;
    this.#memory = new KvMemory(layers, blocks, layerBlockBytes, driver, kernels);
    const numbers = new Uint8Array(layerBlockBytes);
    for (let layer = 0; layer < layers; layer += 1) {
      for (let block = 0; block < blocks; block += 1) {
        this.#memory.write(layer, block, numbers.fill(layer * 31 + block));
      }
    }
    const part = {
      token: this.#memory.share(),
      layers: { first: 0, end: layers },
      heads: { first: 0, end: 1 },
    };
    const options = { receiveBytes: 0, tcp: LOCAL, shm: true, ncclLibrary: nccl };
    this.#engine = new TransferEngine([part], options, (events) => {
      if (events.some(({ type }) => type === 'sent')) this.#sentAt = now();
      this.#events.push(...events);
    });
  }

  async connect(kind: Transport, address: string): Promise<void> {
    this.#link = this.#engine.connect(kind, address, SOCKETS);
    await this.#came('linkUp');
  }

  /** All blocks of all layers are there, but nobody has asked for them yet. */
  save(ticket: number): void {
    const { layers, blocks } = this.#shape;
    this.#engine.openSend(ticket, blocks);
    this.#memory.onKvStep(Int32Array.from([ticket, 0, blocks, ...Array(blocks).keys()]));
    for (let layer = 0; layer < layers; layer += 1) this.#memory.onKvLayerSaved(layer);
  }

  /** They may go. */
  grant(ticket: number): void {
    this.#engine.grant(ticket, this.#link, BigInt(ticket), 0);
  }

  /** When all blocks had left, or the receiver could read them. */
  async sent(): Promise<number> {
    await this.#came('sent');
    return this.#sentAt;
  }

  async close(ticket: number): Promise<void> {
    this.#engine.closeSend(ticket);
    await this.#came('sendClosed');
  }

  /** @throws Error where its link is not up any more. */
  check(): void {
    const down = this.#events.find((event) => event.type === 'linkDown');
    if (down?.type === 'linkDown') throw new Error(`the link went down: ${down.reason}`);
  }

  end(): void {
    this.#engine.close();
  }

  async #came(type: NativeTransferEvent['type']): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      this.check();
      if (this.#events.some((event) => event.type === type)) break;
      if (performance.now() > deadline) throw new Error(`no ${type} came in ${PATIENCE_MS / 1000} s`);
      await sleep(1);
    }
    this.#events.length = 0;
  }
}

/** An event, or where the other process listens. */
const messageSchema = z.looseObject({
  type: z.string(),
  /** In nanoseconds, by the clock of `now`. */
  at: z.number(),
  shm: z.string().nullish(),
  tcp: z.string().nullish(),
  'cuda-ipc': z.string().nullish(),
  nccl: z.string().nullish(),
});
type Message = z.infer<typeof messageSchema>;

/** An instance in a process of its own. */
class Receiver {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #said: Message[] = [];

  constructor(
    { layers, blocks, layerBlockBytes }: KvShape,
    { driver, kernels, nccl }: GpuLibraries,
    env: NodeJS.ProcessEnv,
  ) {
    const args = [CHILD, addonPath(), layers, blocks, layerBlockBytes, driver, kernels, nccl].map(String);
    this.#child = spawn(process.execPath, args, {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, ...env },
    });
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      this.#said.push(messageSchema.parse(JSON.parse(line)));
    });
  }

  order(command: { readonly do: 'receive'; readonly count: number; readonly ticket: number }): void {
    this.#child.stdin.write(`${JSON.stringify(command)}\n`);
  }

  /** The next message of this type, which may need something from `sender`; those before it are forgotten. */
  async next(type: string, sender?: Sender): Promise<Message> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      sender?.check();
      if (this.#said.some((said) => said.type === 'corrupt'))
        throw new Error('other bytes came than were sent');
      const at = this.#said.findIndex((said) => said.type === type);
      if (at >= 0) return this.#said.splice(0, at + 1).at(-1)!;
      if (this.#child.exitCode !== null) throw new Error(`the other process exited ${this.#child.exitCode}`);
      if (performance.now() > deadline) throw new Error(`no ${type} came in ${PATIENCE_MS / 1000} s`);
      await sleep(0.2);
    }
  }

  async end(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    if (this.#child.exitCode === null && this.#child.signalCode === null) await ended;
  }
}
