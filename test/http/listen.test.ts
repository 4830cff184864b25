import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { expectFreeAddress } from '../../src/http/listen.ts';
import { needsIpv6 } from '../helpers/needs.ts';

describe('an address that cannot be had', () => {
  it.each([
    ['198.51.100.7', 'this machine has no address 198.51.100.7: choose another --host'],
    ['[::1]', 'write an IPv6 address without brackets, --host ::1'],
  ])('%s is told with what to do', async (host, why) => {
    const taken = expectFreeAddress({ host, port: 0 });
    await expect(taken).rejects.toThrow(ConfigError);
    await expect(taken).rejects.toThrow(why);
  });

  it('lacks the interface where it is that of a link', needsIpv6, async () => {
    await expect(expectFreeAddress({ host: 'fe80::1', port: 0 })).rejects.toThrow(
      'the address fe80::1 is that of a link: name its interface behind it, as in --host fe80::1%eth0',
    );
  });
});
