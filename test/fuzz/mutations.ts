// Small damages to files, as networks, disks and people do them, and as somebody would who wants to do harm. A seed repeats them.

export type Draw = (below: number) => number;

/** A generator of whole numbers from 0 (xorshift). */
export function seededDraw(seed: number): Draw {
  let state = seed | 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

/** Lengths, offsets and counts at which readers go wrong. */
const WORDS = [0n, 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 53n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n];

const BYTE_MUTATIONS: readonly ((bytes: Buffer, draw: Draw) => Buffer)[] = [
  function flipBit(bytes, draw) {
    const at = draw(bytes.length);
    bytes[at] = bytes[at]! ^ (1 << draw(8));
    return bytes;
  },
  function setByte(bytes, draw) {
    bytes[draw(bytes.length)] = draw(256);
    return bytes;
  },
  function setWord(bytes, draw) {
    if (bytes.length < 8) return bytes;
    const word = WORDS[draw(WORDS.length)]! + BigInt(draw(3));
    bytes.writeBigUInt64LE(BigInt.asUintN(64, word), draw(bytes.length - 7));
    return bytes;
  },
  function cutOff(bytes, draw) {
    return bytes.subarray(0, draw(bytes.length));
  },
  function takeOut(bytes, draw) {
    const at = draw(bytes.length);
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + draw(32))]);
  },
  function repeat(bytes, draw) {
    const at = draw(bytes.length);
    const piece = bytes.subarray(at, at + 1 + draw(64));
    return Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at)]);
  },
  function overwrite(bytes, draw) {
    const [from, to, length] = [draw(bytes.length), draw(bytes.length), 1 + draw(64)];
    bytes.copy(bytes, to, from, Math.min(from + length, bytes.length));
    return bytes;
  },
];

/** One to three damages; most headers are at the beginning, where more of them hit. */
export function mutateBytes(original: Buffer, headerBytes: number, draw: Draw): Buffer {
  let bytes: Buffer = Buffer.from(original);
  for (let times = 1 + draw(3); times > 0 && bytes.length > 0; times--) {
    const isInHeader = draw(4) > 0 && bytes.length > headerBytes;
    const part = isInHeader ? Buffer.from(bytes.subarray(0, headerBytes)) : bytes;
    const mutated = BYTE_MUTATIONS[draw(BYTE_MUTATIONS.length)]!(part, draw);
    bytes = isInHeader ? Buffer.concat([mutated, bytes.subarray(headerBytes)]) : mutated;
  }
  return bytes;
}

const VALUES: readonly (() => unknown)[] = [
  () => null,
  () => true,
  () => 0,
  () => -1,
  () => 0.5,
  () => 1e308,
  () => 2 ** 53,
  () => '',
  () => 'x'.repeat(100_000),
  () => '../../../etc/passwd',
  () => '\u0000\ud800',
  () => [],
  () => {},
  () => ({}),
  () => Array.from({ length: 1000 }, (_, index) => index),
  () => nested(500),
];

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

/** A JSON text of which a value is another, is gone or is there twice; or whose text is damaged. */
export function mutateJson(text: string, draw: Draw): Buffer {
  if (draw(3) === 0) return mutateBytes(Buffer.from(text), text.length, draw);
  if (draw(100) === 0)
    return Buffer.from(text.replace(':', `: ${'['.repeat(100_000)}${']'.repeat(100_000)}, "x":`));
  const root: { value: unknown } = { value: JSON.parse(text) };
  for (let times = 1 + draw(3); times > 0; times--) mutateOne(root, draw);
  return Buffer.from(JSON.stringify(root.value) ?? 'undefined');
}

function mutateOne(root: { value: unknown }, draw: Draw): void {
  const places: { readonly holder: object; readonly key: string }[] = [];
  const collect = (holder: object): void => {
    for (const [key, value] of Object.entries(holder)) {
      places.push({ holder, key });
      if (typeof value === 'object' && value !== null && places.length < 5000) collect(value);
    }
  };
  collect(root);
  const [place, other] = [places[draw(places.length)], places[draw(places.length)]];
  if (place === undefined || other === undefined) return;
  const { holder, key } = place;
  const choice = draw(10);
  if (choice === 0) Reflect.deleteProperty(holder, key);
  else if (choice === 1) Reflect.set(holder, key, structuredClone(Reflect.get(other.holder, other.key)));
  else Reflect.set(holder, key, VALUES[draw(VALUES.length)]!());
}
