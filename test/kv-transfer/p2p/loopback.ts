// An instance of which there is only what reaches others: real control connections over loopback, and blocks that move in
// memory.

import { afterEach } from 'vitest';
import type { KvCompatibility, KvPartPlace } from '../../../src/kv-transfer/connector.ts';
import { DEADLINES, type Deadlines } from '../../../src/kv-transfer/p2p/deadlines.ts';
import {
  type Answer,
  type Identity,
  identityOf,
  type MessageOf,
  type Notice,
  type Unnumbered,
} from '../../../src/kv-transfer/p2p/messages.ts';
import { Notices } from '../../../src/kv-transfer/p2p/notices.ts';
import { type Peer, Peers, type PeersOptions } from '../../../src/kv-transfer/p2p/peers.ts';
import { freePort } from '../../helpers/svc-process.ts';
import { MemoryMover } from './memory-mover.ts';

export const COMPATIBILITY: KvCompatibility = {
  model: 'm',
  isa: 'any',
  dtype: 'bf16',
  kvDType: 'bf16',
  weightFormat: 'bf16',
  blockSize: 4,
  windows: [null],
  layers: 2,
  heads: 1,
  layerBlockBytes: 8,
};

/** KV memory in one part. */
export const WHOLE: KvPartPlace = { layers: { first: 0, end: 2 }, heads: { first: 0, end: 1 } };

export interface LoopbackOptions {
  readonly port?: number;
  /** What it says of itself otherwise than the others. */
  readonly own?: Partial<Identity>;
  readonly deadlines?: Partial<Deadlines>;
}

type Heard = MessageOf<'reserve' | 'pull'> | Notice;

export class Loopback {
  readonly port: number;
  readonly own: Identity;
  readonly peers: Peers;
  readonly notices: Notices;
  readonly mover: MemoryMover;
  readonly deadlines: Deadlines;
  readonly heard: Heard[] = [];
  readonly gone: string[] = [];
  readonly restarted: string[] = [];
  readonly warnings: string[] = [];
  onRequest: (peer: Peer, message: MessageOf<'reserve' | 'pull'>) => Unnumbered<Answer> = () => ({
    type: 'full',
  });
  onNotice: (peer: Peer, notice: Notice) => void = () => {};
  onGone: (address: string) => void = () => {};

  private constructor(options: Omit<PeersOptions, 'mover' | 'deadlines' | 'own'>, given: LoopbackOptions) {
    this.port = options.port;
    const address = `127.0.0.1:${options.port}`;
    this.deadlines = { ...DEADLINES, ...given.deadlines };
    this.mover = new MemoryMover();
    const about = { epoch: 'one', address, endpoints: this.mover.endpoints, ...given.own };
    this.own = { ...identityOf(COMPATIBILITY, [WHOLE], about), ...given.own };
    const { own, mover, deadlines } = this;
    this.peers = new Peers(
      { ...options, own, mover, deadlines },
      {
        onRequest: (peer, message) => {
          this.heard.push(message);
          return this.onRequest(peer, message);
        },
        onNotice: (peer, notice) => {
          this.heard.push(notice);
          this.onNotice(peer, notice);
        },
        onGone: (other) => {
          this.gone.push(other);
          this.onGone(other);
        },
        onRestart: (other) => void this.restarted.push(other),
        warn: (message) => void this.warnings.push(message),
      },
    );
    this.notices = new Notices(this.peers, deadlines);
  }

  /** Is closed after the test. */
  static async start(given: LoopbackOptions = {}): Promise<Loopback> {
    const port = given.port ?? (await freePort());
    const node = new Loopback({ ip: '127.0.0.1', port, keys: null }, given);
    await node.peers.listen();
    started.push(node);
    return node;
  }

  get address(): string {
    return this.own.address;
  }

  get types(): string[] {
    return this.heard.map(({ type }) => type);
  }

  async close(): Promise<void> {
    this.notices.close();
    await this.peers.close();
    this.mover.close();
  }
}

const started: Loopback[] = [];

/** To be called at the top of a test file. */
export function closeLoopbacksAfterEach(): void {
  afterEach(async () => {
    await Promise.all(started.splice(0).map((node) => node.close()));
  });
}
