// ZeroMQ's CURVE keys from the secret that instances and proxy share. All of them have the same pair of keys, and even its public
// half is secret: without the secret nobody can connect or read along.

import { createPrivateKey, createPublicKey, scryptSync } from 'node:crypto';

export interface CurveKeys {
  readonly publicKey: string;
  readonly secretKey: string;
}

const SALT = 'svc kv transfer 1';
/** The bytes before a raw X25519 key in PKCS #8. */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');
const Z85 = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#';

/** Slow on purpose (some 50 ms), so that a secret cannot be guessed from recorded traffic. */
export function curveKeys(secret: string): CurveKeys {
  const seed = scryptSync(secret, SALT, 32);
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' });
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return { publicKey: z85(spki.subarray(-32)), secretKey: z85(seed) };
}

/** Options of a socket that binds; empty without keys. */
export function curveServer(keys: CurveKeys | null): { curveServer?: true; curveSecretKey?: string } {
  return keys === null ? {} : { curveServer: true, curveSecretKey: keys.secretKey };
}

/** Options of a socket that connects; empty without keys. */
export function curveClient(keys: CurveKeys | null): {
  curveServerKey?: string;
  curvePublicKey?: string;
  curveSecretKey?: string;
} {
  if (keys === null) return {};
  return { curveServerKey: keys.publicKey, curvePublicKey: keys.publicKey, curveSecretKey: keys.secretKey };
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
