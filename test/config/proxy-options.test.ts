import { describe, expect, it } from 'vitest';
import { environmentOptions } from '../../src/config/merge.ts';
import { PROXY_OPTIONS, proxyConfig } from '../../src/config/proxy-options.ts';

const config = (values: Readonly<Record<string, string>>) =>
  proxyConfig(new Map(Object.entries(values).map(([key, value]) => [key, { value, origin: key }])));

describe('the ports of a proxy', () => {
  it.each([{}, { host: '0.0.0.0' }, { host: 'localhost' }, { discoveryHost: '0.0.0.0' }])(
    'must differ: %j',
    (hosts) => {
      expect(() => config({ ...hosts, port: '9150', discoveryPort: '9150' })).toThrow(
        /^--port and --discovery-port are both 9150: .* give one of them another$/,
      );
    },
  );

  it('may be the same on two addresses, or any that are free', () => {
    const ports = { port: '9150', discoveryPort: '9150' };
    expect(config({ ...ports, host: '127.0.0.2' })).toMatchObject({ port: 9150, discoveryPort: 9150 });
    expect(config({ port: '0', discoveryPort: '0' })).toMatchObject({ port: 0, discoveryPort: 0 });
  });
});

it.each(['SVC_API_KEY', 'SVC_KV_TRANSFER_SECRET'])('a proxy refuses %s that is empty', (name) => {
  expect(() => proxyConfig(environmentOptions(PROXY_OPTIONS, { [name]: '' }))).toThrow(
    `${name} is set and empty, which keeps nobody out`,
  );
});
