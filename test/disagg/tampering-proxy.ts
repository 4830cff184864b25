// A proxy between instances that relays their control messages and data streams. Every message is a named step, at which
// it can inject a fault. The instances are real; only the addresses that they get lead through here.

import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { decode, encode } from '@msgpack/msgpack';
import { Dealer, Router } from 'zeromq';
import { z } from 'zod';

export type LinkFault = 'none' | 'reset' | 'flip' | 'half-open';

const Message = z.looseObject({
  type: z.string(),
  address: z.string().optional(),
  endpoints: z.looseObject({ tcp: z.string().nullable() }).optional(),
});
type Message = z.infer<typeof Message>;
const Registered = z.looseObject({ zmq_address: z.string() });

/** All connections between the instances of one test. */
export class Wiretap {
  /** What the data streams suffer from now on. */
  fault: LinkFault = 'none';
  /** Control messages are swallowed from now on. */
  isControlCut = false;
  /** Called with the name of each step, before it happens: the type of a message, `link` or `data`. */
  onStep: (step: string) => void = () => {};
  readonly #doors: ControlDoor[] = [];
  readonly #registrars: Registrar[] = [];
  readonly #relays = new Map<string, DataRelay>();
  /** Real control addresses, and what the others are told. */
  readonly #aliases = new Map<string, string>();

  /** @returns the address under which peers find the instance at `target`. */
  async addDoor(port: number, target: string): Promise<string> {
    const router = new Router({ linger: 0 });
    await router.bind(`tcp://127.0.0.1:${port}`);
    this.#doors.push(new ControlDoor(router, target, this));
    const address = `127.0.0.1:${port}`;
    this.#aliases.set(target, address);
    return address;
  }

  /** @returns the port at which instances register with the proxy whose discovery port is `port`: it gets the addresses of their doors. */
  async addDiscovery(port: number): Promise<number> {
    const registrar = await Registrar.start(port, this.#aliases);
    this.#registrars.push(registrar);
    return registrar.port;
  }

  async close(): Promise<void> {
    for (const door of [...this.#doors, ...this.#registrars]) door.close();
    for (const relay of this.#relays.values()) relay.close();
  }

  /** Who says where it can be found is made to say where the way leads through here. */
  async readdress(message: Message): Promise<Message> {
    const { address, endpoints } = message;
    if (address === undefined || endpoints === undefined) return message;
    const tcp = endpoints.tcp === null ? null : await this.#relayTo(endpoints.tcp);
    return {
      ...message,
      address: this.#aliases.get(address) ?? address,
      endpoints: { ...endpoints, tcp },
    };
  }

  async #relayTo(target: string): Promise<string> {
    const relay = this.#relays.get(target) ?? (await DataRelay.start(target, this));
    this.#relays.set(target, relay);
    return relay.address;
  }
}

/** Control messages to one instance, and its answers. */
class ControlDoor {
  readonly #router: Router;
  readonly #target: string;
  readonly #tap: Wiretap;
  readonly #dealers = new Map<string, Dealer>();

  constructor(router: Router, target: string, tap: Wiretap) {
    this.#router = router;
    this.#target = target;
    this.#tap = tap;
    void this.#passIn();
  }

  close(): void {
    this.#router.close();
    for (const dealer of this.#dealers.values()) dealer.close();
  }

  async #passIn(): Promise<void> {
    for await (const [identity, payload] of this.#router) {
      if (identity === undefined || payload === undefined) continue;
      const seen = await this.#see(payload);
      try {
        if (seen !== null) await this.#dealerOf(identity).send(seen);
      } catch {
        // This door may be closed meanwhile.
      }
    }
  }

  #dealerOf(identity: Buffer): Dealer {
    const name = identity.toString('latin1');
    const known = this.#dealers.get(name);
    if (known !== undefined) return known;
    const dealer = new Dealer({ linger: 0 });
    dealer.connect(`tcp://${this.#target}`);
    this.#dealers.set(name, dealer);
    void this.#passBack(dealer, identity);
    return dealer;
  }

  async #passBack(dealer: Dealer, identity: Buffer): Promise<void> {
    for await (const [payload] of dealer) {
      const seen = payload === undefined ? null : await this.#see(payload);
      if (seen === null) continue;
      try {
        await this.#router.send([identity, seen]);
      } catch {
        // The one who asked may be gone, or this door closed.
      }
    }
  }

  /** Null where the message is swallowed. */
  async #see(payload: Buffer): Promise<Uint8Array | null> {
    const message = Message.parse(decode(payload, { useBigInt64: false }));
    this.#tap.onStep(message.type);
    return this.#tap.isControlCut ? null : encode(await this.#tap.readdress(message));
  }
}

/** Passes on what instances say to the discovery port of a proxy. */
class Registrar {
  readonly port: number;
  readonly #router: Router;
  readonly #target: number;
  readonly #aliases: ReadonlyMap<string, string>;
  readonly #dealers = new Map<string, Dealer>();

  private constructor(router: Router, target: number, aliases: ReadonlyMap<string, string>) {
    this.port = Number(router.lastEndpoint?.split(':').at(-1));
    this.#router = router;
    this.#target = target;
    this.#aliases = aliases;
    void this.#pass();
  }

  static async start(target: number, aliases: ReadonlyMap<string, string>): Promise<Registrar> {
    const router = new Router({ linger: 0 });
    await router.bind('tcp://127.0.0.1:*');
    return new Registrar(router, target, aliases);
  }

  close(): void {
    this.#router.close();
    for (const dealer of this.#dealers.values()) dealer.close();
  }

  async #pass(): Promise<void> {
    for await (const [, payload] of this.#router) {
      const message = Registered.parse(decode(payload!));
      const address = this.#aliases.get(message.zmq_address) ?? message.zmq_address;
      await this.#dealerOf(address).send(encode({ ...message, zmq_address: address }));
    }
  }

  /** The proxy takes an instance's word only from a socket that is named as its address. */
  #dealerOf(routingId: string): Dealer {
    const known = this.#dealers.get(routingId);
    if (known !== undefined) return known;
    const dealer = new Dealer({ linger: 0, routingId });
    dealer.connect(`tcp://127.0.0.1:${this.#target}`);
    this.#dealers.set(routingId, dealer);
    return dealer;
  }
}

/** Passes the streams to one data listener on, until a fault is wanted. */
class DataRelay {
  readonly address: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, address: string) {
    this.#server = server;
    this.address = address;
  }

  static async start(target: string, tap: Wiretap): Promise<DataRelay> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const bound = server.address();
    if (bound === null || typeof bound === 'string') throw new Error('no port was given');
    const relay = new DataRelay(server, `127.0.0.1:${bound.port}`);
    const [host = '', port = ''] = target.split(':');
    server.on('connection', (inbound) => relay.#join(inbound, connect(Number(port), host), tap));
    return relay;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #join(inbound: Socket, outbound: Socket, tap: Wiretap): void {
    for (const socket of [inbound, outbound]) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    }
    inbound.on('close', () => outbound.destroy());
    outbound.on('close', () => inbound.destroy());
    // Why the receiver closes it; that it does is only seen by who reads.
    outbound.on('data', (bytes) => {
      if (tap.fault !== 'half-open') inbound.write(bytes);
    });
    let hasGreeted = false;
    inbound.on('data', (bytes) => {
      tap.onStep(hasGreeted ? 'data' : 'link');
      hasGreeted = true;
      if (tap.fault === 'half-open') return;
      if (tap.fault === 'reset') {
        inbound.resetAndDestroy();
        return;
      }
      if (tap.fault === 'flip') flipOneBit(bytes);
      if (outbound.write(bytes)) return;
      inbound.pause();
      outbound.once('drain', () => inbound.resume());
    });
  }
}

function flipOneBit(bytes: Buffer): void {
  const middle = bytes.length >> 1;
  bytes.writeUInt8(bytes.readUInt8(middle) ^ 1, middle);
}
