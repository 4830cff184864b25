import { describe, expect, it } from 'vitest';
import { UnauthorizedError } from '../../src/errors.ts';
import { ApiKeys, CALLER_NAME } from '../../src/http/auth.ts';

const guarded = { method: 'GET', route: '/v1/models', authorization: undefined };

describe('ApiKeys', () => {
  it('asks nothing where there are no keys', () => {
    expect(() => new ApiKeys([]).check(guarded)).not.toThrow();
  });

  it('guards everything but the routes that machines ask', () => {
    const keys = new ApiKeys(['key']);
    for (const route of ['/v1/models', '/instances', '/healthy', undefined]) {
      expect(() => keys.check({ ...guarded, route })).toThrow(UnauthorizedError);
    }
    for (const route of [
      '/',
      '/health',
      '/ping',
      '/load',
      '/metrics',
      '/version',
      '/openapi.json',
      '/docs',
    ]) {
      expect(() => keys.check({ ...guarded, route })).not.toThrow();
    }
  });

  it('takes keys of any characters that a header may hold', () => {
    const keys = new ApiKeys(['a b', 'ü', 'x'.repeat(5000)]);
    for (const key of ['a b', 'ü', 'x'.repeat(5000)]) {
      expect(() => keys.check({ ...guarded, authorization: `Bearer ${key}` })).not.toThrow();
    }
    expect(() => keys.check({ ...guarded, authorization: 'Bearer x' })).toThrow(UnauthorizedError);
  });

  it('names a caller by its key where keys are asked for, without showing it, else by its address', () => {
    const from = { authorization: 'Bearer key', address: '10.0.0.1', proxied: null };
    const withKeys = new ApiKeys(['key', 'other']);
    const name = withKeys.callerOf(from);
    expect(name).toMatch(CALLER_NAME);
    expect(withKeys.callerOf({ ...from, address: '10.0.0.2' })).toBe(name);
    expect(withKeys.callerOf({ ...from, authorization: 'bearer  key' })).toBe(name);
    expect(withKeys.callerOf({ ...from, authorization: 'Bearer other' })).not.toBe(name);
    const open = new ApiKeys([]);
    expect(open.callerOf(from)).toMatch(CALLER_NAME);
    expect(open.callerOf({ ...from, authorization: 'Bearer made up' })).toBe(open.callerOf(from));
    expect(open.callerOf({ ...from, address: '10.0.0.2' })).not.toBe(open.callerOf(from));
  });

  it('believes a proxy about the key of its client, and about its address where no key is shown here', () => {
    const throughProxy = { authorization: 'Bearer of the proxy', address: '10.0.0.1' };
    const clientKey = new ApiKeys(['key']).callerOf({
      ...throughProxy,
      authorization: 'Bearer key',
      proxied: null,
    });
    const clientAddress = new ApiKeys([]).callerOf({ ...throughProxy, address: '10.0.0.2', proxied: null });
    const open = new ApiKeys([]);
    const withKeys = new ApiKeys(['of the proxy']);
    expect([open, withKeys].map((keys) => keys.callerOf({ ...throughProxy, proxied: clientKey }))).toEqual([
      clientKey,
      clientKey,
    ]);
    expect(open.callerOf({ ...throughProxy, proxied: clientAddress })).toBe(clientAddress);
    expect(withKeys.callerOf({ ...throughProxy, proxied: clientAddress })).toBe(
      withKeys.callerOf({ ...throughProxy, proxied: null }),
    );
  });
});
