// What all ZeroMQ sockets of this process have in common: one context, and CURVE keys from the secret that instances and proxy
// share. All of them have the same pair of keys, and even its public half is secret: without the secret nobody can connect or
// read along.

import { createPrivateKey, createPublicKey, scryptSync } from 'node:crypto';
import { Context } from 'zeromq';

export interface CurveKeys {
  readonly publicKey: string;
  readonly secretKey: string;
}

const SALT = 'svc kv transfer 1';
/** The bytes before a raw X25519 key in PKCS #8. */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');
const Z85 = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#';

/**
 * The most sockets that ZeroMQ allows; its default of 1023 is enough for a few hundred peers only. An instance has a socket for
 * each peer, and a process may hold many instances.
 */
const MAX_SOCKETS = 65_535;

let shared: Context | null = null;

/**
 * Made at first use, so that other processes get no ZeroMQ threads. Not blocky: unsent messages do not keep the process
 * alive.
 */
export function zmqContext(): Context {
  shared ??= new Context({ maxSockets: MAX_SOCKETS, blocky: false });
  return shared;
}

/** Null without a secret. Slow on purpose (some 50 ms), so that a secret cannot be guessed from recorded traffic. */
export function curveKeys(secret: string | null): CurveKeys | null {
  if (secret === null) return null;
  const seed = scryptSync(secret, SALT, 32);
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' });
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return { publicKey: z85(spki.subarray(-32)), secretKey: z85(seed) };
}

/** Options of a socket that binds. */
export function serverOptions(keys: CurveKeys | null) {
  const context = zmqContext();
  return keys === null ? { context } : { context, curveServer: true, curveSecretKey: keys.secretKey };
}

/** Options of a socket that connects. */
export function clientOptions(keys: CurveKeys | null) {
  const context = zmqContext();
  if (keys === null) return { context };
  const { publicKey, secretKey } = keys;
  return { context, curveServerKey: publicKey, curvePublicKey: publicKey, curveSecretKey: secretKey };
}

/** ZeroMQ's text form of keys: five characters for four bytes. */
function z85(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let text = '';
  for (let at = 0; at < bytes.byteLength; at += 4) {
    const word = view.getUint32(at);
    for (const weight of [85 ** 4, 85 ** 3, 85 ** 2, 85, 1]) text += Z85[Math.floor(word / weight) % 85];
  }
  return text;
}
