// Greetings and frames as bytes, right or wrong in any way, and a socket to write them to.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { loadNative } from '../../src/native/native.ts';
import type { Shape } from './transfer-node.ts';

export interface RawHello {
  readonly magic?: number;
  readonly version?: number;
  readonly layers?: number;
  readonly blocks?: number;
  readonly layerBlockBytes?: bigint;
}

export function rawHello(shape: Shape, wrong: RawHello = {}): Buffer {
  const bytes = Buffer.alloc(24);
  bytes.writeUInt32LE(wrong.magic ?? 0x48435653, 0);
  bytes.writeUInt32LE(wrong.version ?? 1, 4);
  bytes.writeUInt32LE(wrong.layers ?? shape.layers, 8);
  bytes.writeUInt32LE(wrong.blocks ?? shape.blocks, 12);
  bytes.writeBigUInt64LE(wrong.layerBlockBytes ?? BigInt(shape.layerBlockBytes), 16);
  return bytes;
}

export interface RawFrame {
  readonly magic?: number;
  readonly layer?: number;
  readonly ticket: bigint;
  readonly firstBlock?: number;
  /** Where it is not the number of pieces. */
  readonly count?: number;
  readonly flags?: number;
  readonly checksum?: number;
  readonly pieceChecksum?: number;
  /** Where the sender has all of them; TCP does not look at it. */
  readonly sourceBlock?: number;
  readonly pieces: readonly Uint8Array[];
}

export function rawFrame(frame: RawFrame): Buffer {
  const { crc32c } = loadNative();
  const head = Buffer.alloc(32 + 8 * frame.pieces.length);
  head.writeUInt32LE(frame.magic ?? 0x46435653, 0);
  head.writeUInt32LE(frame.layer ?? 0, 4);
  head.writeBigUInt64LE(frame.ticket, 8);
  head.writeUInt32LE(frame.firstBlock ?? 0, 16);
  head.writeUInt32LE(frame.count ?? frame.pieces.length, 20);
  head.writeUInt32LE(frame.flags ?? 0, 24);
  for (const [i, piece] of frame.pieces.entries()) {
    head.writeUInt32LE(frame.pieceChecksum ?? crc32c(piece), 32 + 8 * i);
    head.writeUInt32LE(frame.sourceBlock ?? 0, 36 + 8 * i);
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
