// Reads the wire format of protocol buffers, as far as it takes to look into a tokenizer.model: fields by their number, unknown
// ones included. Source: the Protocol Buffers encoding specification.

/** One field of a message: a number (varint, or the bits of a float) or bytes (text, or a message in the message). */
export interface ProtobufField {
  readonly number: number;
  readonly value: number | Uint8Array;
}

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** More bytes no varint has; the numbers that are read here have five at most. */
const MOST_VARINT_BYTES = 10;

/**
 * The fields of a message in their order.
 * @throws RangeError where the bytes are no message, or end inside a field.
 */
export function* protobufFields(bytes: Uint8Array): Generator<ProtobufField> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (length: number): number => {
    const start = at;
    if (start + length > bytes.length) throw new RangeError(`it ends inside the field at byte ${start}`);
    at += length;
    return start;
  };
  const varint = (): number => {
    let value = 0;
    for (let read = 0; read < MOST_VARINT_BYTES; read++) {
      const byte = view.getUint8(take(1));
      value += (byte & 0x7f) * 2 ** (7 * read);
      if (byte < 0x80) return value;
    }
    throw new RangeError(`the number before byte ${at} does not end`);
  };
  while (at < bytes.length) {
    const key = varint();
    const number = Math.floor(key / 8);
    const type = key % 8;
    if (type === VARINT) yield { number, value: varint() };
    else if (type === FIXED64) yield { number, value: view.getFloat64(take(8), true) };
    else if (type === FIXED32) yield { number, value: view.getFloat32(take(4), true) };
    else if (type === BYTES) {
      const length = varint();
      const start = take(length);
      yield { number, value: bytes.subarray(start, start + length) };
    } else throw new RangeError(`a field of the unknown type ${type} before byte ${at}`);
  }
}
