import { describe, expect, it } from 'vitest';
import { UnauthorizedError } from '../../src/errors.ts';
import { ApiKeys } from '../../src/http/auth.ts';

const caller = { method: 'GET', route: '/v1/models', authorization: undefined };

describe('ApiKeys', () => {
  it('asks nothing where there are no keys', () => {
    expect(() => new ApiKeys([]).check(caller)).not.toThrow();
  });

  it('guards everything but the routes that machines ask', () => {
    const keys = new ApiKeys(['key']);
    for (const route of ['/v1/models', '/', '/instances', '/healthy', undefined]) {
      expect(() => keys.check({ ...caller, route })).toThrow(UnauthorizedError);
    }
    for (const route of ['/health', '/ping', '/load', '/metrics', '/version']) {
      expect(() => keys.check({ ...caller, route })).not.toThrow();
    }
  });

  it('takes keys of any characters that a header may hold', () => {
    const keys = new ApiKeys(['a b', 'ü', 'x'.repeat(5000)]);
    for (const key of ['a b', 'ü', 'x'.repeat(5000)]) {
      expect(() => keys.check({ ...caller, authorization: `Bearer ${key}` })).not.toThrow();
    }
    expect(() => keys.check({ ...caller, authorization: 'Bearer x' })).toThrow(UnauthorizedError);
  });
});
