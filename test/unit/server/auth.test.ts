import { describe, expect, it } from 'vitest';
import { UnauthorizedError } from '../../../src/errors.ts';
import { ApiKeys } from '../../../src/http/auth.ts';

const caller = { method: 'GET', url: '/v1/models', route: '/v1/models', authorization: undefined };

describe('ApiKeys', () => {
  it('asks nothing where there are no keys', () => {
    expect(() => new ApiKeys([]).check(caller)).not.toThrow();
  });

  it('guards a route by its pattern, whatever the URL looks like', () => {
    const keys = new ApiKeys(['key']);
    expect(() => keys.check({ ...caller, url: '/%76%31/models' })).toThrow(UnauthorizedError);
    expect(() => keys.check({ ...caller, url: '/health', route: '/health' })).not.toThrow();
  });

  it('takes keys of any characters that a header may hold', () => {
    const keys = new ApiKeys(['a b', 'ü', 'x'.repeat(5000)]);
    for (const key of ['a b', 'ü', 'x'.repeat(5000)]) {
      expect(() => keys.check({ ...caller, authorization: `Bearer ${key}` })).not.toThrow();
    }
    expect(() => keys.check({ ...caller, authorization: 'Bearer x' })).toThrow(UnauthorizedError);
  });
});
