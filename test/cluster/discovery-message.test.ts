import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeRegistration, readRegistration } from '../../src/cluster/discovery-message.ts';

const THREE_KEYS = { type: 'P', http_address: '10.0.1.2:20001', zmq_address: '10.0.1.2:21001' } as const;
const LOAD = { running: 1, waiting: 2, free_blocks: 3, num_blocks: 4 };

describe('a registration', () => {
  it('of the existing protocol has three keys', () => {
    expect(readRegistration(encode(THREE_KEYS))).toEqual({ isValid: true, message: THREE_KEYS });
  });

  it('says more between our own', () => {
    const message = {
      ...THREE_KEYS,
      type: 'D',
      http_address: '[fd00::1]:8000',
      state: 'draining',
      epoch: '0123456789abcdef',
      model: 'small',
      load: LOAD,
      proxy_token: 'a token',
      role: 'kv_consumer',
      send_type: 'PUT_ASYNC',
      keeps_states: true,
    } as const;
    expect(readRegistration(encodeRegistration(message))).toEqual({ isValid: true, message });
  });

  it('may have keys that nobody knows yet', () => {
    expect(readRegistration(encode({ ...THREE_KEYS, later: [1] }))).toEqual({
      isValid: true,
      message: THREE_KEYS,
    });
  });

  it.each([
    [{ ...THREE_KEYS, type: 'X' }, 'type'],
    [{ ...THREE_KEYS, http_address: 'http://10.0.1.2:1' }, 'http_address'],
    [{ ...THREE_KEYS, http_address: '10.0.1.2:99999' }, 'http_address'],
    [{ ...THREE_KEYS, http_address: '10.0.1.2:1/path' }, 'http_address'],
    [{ ...THREE_KEYS, http_address: 'rack.12:8000' }, 'http_address'],
    [{ ...THREE_KEYS, http_address: '1.2.3.4.5:80' }, 'http_address'],
    [{ ...THREE_KEYS, http_address: '[::::]:80' }, 'http_address'],
    [{ ...THREE_KEYS, zmq_address: 7 }, 'zmq_address'],
    [{ ...THREE_KEYS, zmq_address: '300.1.1.1:80' }, 'zmq_address'],
    [{ ...THREE_KEYS, http_address: `${'a.'.repeat(138)}a:8000` }, 'http_address'],
    [{ ...THREE_KEYS, load: { ...LOAD, running: -1 } }, 'load.running'],
    [{ ...THREE_KEYS, load: { ...LOAD, waiting: 0.5 } }, 'load.waiting'],
    [{ ...THREE_KEYS, load: { running: 1 } }, 'load.waiting'],
    [{ ...THREE_KEYS, epoch: 'e'.repeat(65) }, 'epoch'],
    [{ ...THREE_KEYS, proxy_token: 't'.repeat(65) }, 'proxy_token'],
    [{ ...THREE_KEYS, model: 'm'.repeat(513) }, 'model'],
    [{ ...THREE_KEYS, later: 'x'.repeat(2049) }, 'not one value of msgpack within the limits'],
    [[THREE_KEYS], 'message'],
    [null, 'message'],
  ])('%j is refused', (value, where) => {
    const read = readRegistration(encode(value));
    expect(read).toMatchObject({ isValid: false });
    expect(read.isValid ? '' : read.why).toContain(where);
  });

  it('is read from no arbitrary bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => !readRegistration(bytes).isValid),
      { numRuns: 2000 },
    );
  });

  it('may have 4096 bytes', () => {
    const padded = (bytes: number): Uint8Array =>
      encode({ ...THREE_KEYS, a: 'x'.repeat(2000), b: 'x'.repeat(bytes - encode(THREE_KEYS).length - 2010) });
    expect([4096, 4097].map((bytes) => padded(bytes).length)).toEqual([4096, 4097]);
    expect(readRegistration(padded(4096))).toEqual({ isValid: true, message: THREE_KEYS });
    const why = '4097 bytes, at most 4096 are read';
    expect(readRegistration(padded(4097))).toEqual({ isValid: false, why });
  });

  it('that claims a huge array takes no memory', () => {
    // An array of 30 million entries, of which none follows.
    expect(readRegistration(Uint8Array.of(0xdd, 0x01, 0xc9, 0xc3, 0x80))).toMatchObject({ isValid: false });
  });
});
