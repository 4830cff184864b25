import { isIP } from 'node:net';
import { describe, expect, it } from 'vitest';
import { isPublicAddress, PrivateAddressError, refusalOf } from '../../src/images/public-addresses.ts';

describe('an address', () => {
  it.each([
    '1.1.1.1',
    '8.8.8.8',
    '100.63.255.255',
    '172.32.0.1',
    '193.0.0.1',
    '2606:4700::1111',
    '2a00:1450::1',
  ])('is public: %s', (address) => expect(isPublicAddress(address)).toBe(true));

  it.each([
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:8.8.8.8',
    '::ffff:127.0.0.1',
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    'fc00::1',
    'fd12::1',
    'fe80::1',
    'fe80::1%lo',
    'ff02::1',
    '2002:7f00:1::',
    '2001:0:1::1',
    '2001:db8::1',
    'localhost',
    '',
  ])('is not public: %j', (address) => expect(isPublicAddress(address)).toBe(false));
});

describe('a name', () => {
  const found = (...addresses: string[]) => addresses.map((address) => ({ address, family: isIP(address) }));

  it('is refused where it leads to any address that is not public, for a connection may go to that one', () => {
    expect(refusalOf('a.example', found('1.1.1.1', '2606:4700::1111'))).toBeNull();
    expect(refusalOf('a.example', found('1.1.1.1', '127.0.0.1'))).toBeInstanceOf(PrivateAddressError);
    expect(refusalOf('a.example', found('::1', '1.1.1.1'))?.message).toBe('a.example');
  });
});
