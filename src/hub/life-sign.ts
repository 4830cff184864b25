// A sign that a process is alive, for those in other containers that have its host's name and network: pids tell them nothing. It is
// a socket in the abstract namespace, which nobody connects to and which is gone with its process.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, readlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:net';

export class LifeSign {
  readonly name: string;
  readonly #socket: Server;

  private constructor(name: string, socket: Server) {
    this.name = name;
    this.#socket = socket;
  }

  /** Null where there can be none. */
  static async begin(): Promise<LifeSign | null> {
    const name = `svc-lock-${randomUUID()}`;
    const socket = createServer((connection) => connection.destroy()).unref();
    try {
      await once(socket.listen(`\0${name}`), 'listening');
    } catch {
      return null;
    }
    return new LifeSign(name, socket);
  }

  end(): void {
    this.#socket.close();
  }
}

/** Whether its process lives; null where the sockets of this machine cannot be seen. */
export function isLifeSign(name: string): boolean | null {
  try {
    return readFileSync('/proc/net/unix', 'latin1').includes(` @${name}`);
  } catch {
    return null;
  }
}

/** The namespace in which the pids of this process have their meaning; null where that cannot be told. */
export function pidNamespace(): string | null {
  try {
    return readlinkSync('/proc/self/ns/pid');
  } catch {
    return null;
  }
}
