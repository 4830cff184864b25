// Greetings and frames as bytes, right or wrong in any way, and a socket to write them to.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { loadNative } from '../../src/native/native.ts';
import type { Shape } from './transfer-node.ts';

export interface RawHello {
  readonly magic?: number;
  readonly version?: number;
  readonly shards?: number;
  readonly pieceTokens?: number;
  readonly pieceBytes?: bigint;
  readonly firstLayer?: number;
  readonly layers?: number;
  readonly endLayer?: number;
  readonly firstShard?: number;
  readonly endShard?: number;
  readonly blockTokens?: number;
  readonly blocks?: number;
  readonly checksum?: number;
}

export function rawHello(shape: Shape, wrong: RawHello = {}): Buffer {
  const { tokens = 1 } = shape;
  const cut = [
    wrong.magic ?? 0x48435653,
    wrong.version ?? 3,
    wrong.layers ?? shape.layers,
    wrong.shards ?? 1,
    wrong.pieceTokens ?? tokens,
    wrong.blockTokens ?? tokens,
  ];
  const part = [
    wrong.firstLayer ?? 0,
    wrong.endLayer ?? shape.layers,
    wrong.firstShard ?? 0,
    wrong.endShard ?? 1,
    wrong.blocks ?? shape.blocks,
  ];
  const bytes = Buffer.alloc(56);
  for (const [i, number] of cut.entries()) bytes.writeUInt32LE(number, i * 4);
  bytes.writeBigUInt64LE(wrong.pieceBytes ?? BigInt(shape.layerBlockBytes), 24);
  for (const [i, number] of part.entries()) bytes.writeUInt32LE(number, 32 + i * 4);
  bytes.writeUInt32LE(wrong.checksum ?? loadNative().crc32c(bytes), 52);
  return bytes;
}

export interface RawFrame {
  readonly magic?: bigint;
  readonly layer?: number;
  readonly ticket: bigint;
  readonly firstBlock?: number;
  /** Where it is not the number of pieces. */
  readonly count?: number;
  readonly shard?: number;
  readonly checksum?: number;
  readonly pieceChecksum?: number;
  /** Where the sender has all of them; TCP does not look at it. */
  readonly sourceBlock?: number;
  readonly pieces: readonly Uint8Array[];
}

export function rawFrame(frame: RawFrame): Buffer {
  const { crc32c } = loadNative();
  const head = Buffer.alloc(32 + 12 * frame.pieces.length);
  head.writeBigUInt64LE(frame.magic ?? 0x454d415246435653n, 0);
  head.writeBigUInt64LE(frame.ticket, 8);
  head.writeUInt32LE(frame.layer ?? 0, 16);
  head.writeUInt32LE(frame.shard ?? 0, 20);
  head.writeUInt32LE(frame.count ?? frame.pieces.length, 24);
  for (const [i, piece] of frame.pieces.entries()) {
    head.writeUInt32LE(frame.pieceChecksum ?? crc32c(piece), 32 + 12 * i);
    head.writeUInt32LE(frame.sourceBlock ?? 0, 36 + 12 * i);
    head.writeUInt32LE(((frame.firstBlock ?? 0) + i) >>> 0, 40 + 12 * i);
  }
  head.writeUInt32LE(frame.checksum ?? crc32c(head), 28);
  return Buffer.concat([head, ...frame.pieces]);
}

/** A connection by hand. */
export class RawPeer {
  /** What the other side said. */
  said = '';
  hasEnded = false;
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      this.said += bytes.toString('latin1');
    });
    socket.on('close', () => {
      this.hasEnded = true;
    });
  }

  static async connect(address: string): Promise<RawPeer> {
    const [host, port] = address.split(':');
    const socket = connect(Number(port), host);
    const peer = new RawPeer(socket);
    await once(socket, 'connect');
    return peer;
  }

  write(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  close(): void {
    this.#socket.destroy();
  }
}
