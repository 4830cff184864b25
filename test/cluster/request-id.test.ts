import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatAddress, parseAddress } from '../../src/cluster/address.ts';
import { makeRequestId, parseRequestId } from '../../src/cluster/request-id.ts';

const HEX = '93923d63113b4b338973f24d19d4bf11';
const KNOWN = `___prefill_addr_10.0.1.2:21001___decode_addr_10.0.1.3:22001_${HEX}`;
const port = fc.integer({ min: 1, max: 65535 });
const address = fc
  .record({ ip: fc.oneof(fc.ipV4(), fc.ipV6()), port })
  .filter(({ ip }) => parseAddress(ip.includes(':') ? `[${ip}]:1` : `${ip}:1`) !== null)
  .map(formatAddress);

describe('a request id', () => {
  it('is read back as it was made, whatever servers put around it', () => {
    const around = fc.tuple(
      fc.constantFrom('', 'cmpl-', 'chatcmpl-'),
      fc.constantFrom('', '-0', '-17', '-0-1'),
    );
    fc.assert(
      fc.property(address, address, around, (prefill, decode, [before, after]) => {
        const id = makeRequestId(prefill, decode);
        expect(parseRequestId(before + id + after)).toEqual({ id, prefill, decode });
      }),
    );
  });

  it('of the existing protocol is understood', () => {
    expect(parseRequestId(`cmpl-${KNOWN}-0`)).toEqual({
      id: KNOWN,
      prefill: '10.0.1.2:21001',
      decode: '10.0.1.3:22001',
    });
  });

  it('is never the same twice', () => {
    expect(makeRequestId('1.2.3.4:5', '1.2.3.4:6')).not.toBe(makeRequestId('1.2.3.4:5', '1.2.3.4:6'));
  });

  it.each([
    '',
    'cmpl-1234',
    KNOWN.slice(0, -1),
    `${KNOWN}a`,
    `${KNOWN}_x`,
    `x${KNOWN}`,
    KNOWN.toUpperCase(),
    KNOWN.replace('10.0.1.2', '10.0.1.256'),
    KNOWN.replace('10.0.1.2', 'host'),
    KNOWN.replace('10.0.1.2', 'fd00::1'),
    KNOWN.replace('10.0.1.2', '[10.0.1.2]'),
    KNOWN.replace('21001', '0'),
    KNOWN.replace('21001', '021001'),
    KNOWN.replace('21001', '65536'),
    KNOWN.replace('___decode', '__decode'),
    `___decode_addr_10.0.1.3:22001___prefill_addr_10.0.1.2:21001_${HEX}`,
    `${'-'.repeat(600)}${KNOWN}`,
  ])('%s is none', (text) => {
    expect(parseRequestId(text)).toBeNull();
  });

  it('is found in no arbitrary text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => parseRequestId(text) === null),
    );
  });
});

describe('an address', () => {
  it('is read back as it was written', () => {
    fc.assert(
      fc.property(address, (text) => {
        const parsed = parseAddress(text);
        expect(parsed && formatAddress(parsed)).toBe(text);
      }),
    );
  });
});
