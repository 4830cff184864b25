import { describe, expect, it } from 'vitest';
import { mergeOptions, type OptionSource, serveConfig } from '../../src/config/merge.ts';
import { type OptionKey, SERVE_OPTIONS } from '../../src/config/options.ts';

const http = (values: Partial<Record<OptionKey, unknown>>) => {
  const given: OptionSource = new Map(
    SERVE_OPTIONS.keys.flatMap((key) => (key in values ? [[key, { value: values[key], origin: key }]] : [])),
  );
  return serveConfig(mergeOptions(given)).http;
};

describe('options of the HTTP server', () => {
  it.each([
    ['/api', '/api'],
    ['api/v2/', '/api/v2'],
    ['/', null],
  ])('--root-path %s stands in front as %s', (given, expected) => {
    expect(http({ rootPath: given }).rootPath).toBe(expected);
  });

  it('the level of the log of requests is that of the log where --uvicorn-log-level names no other', () => {
    expect(http({ logLevel: 'error' }).logLevel).toBe('error');
    expect(http({ logLevel: 'error', uvicornLogLevel: 'trace' }).logLevel).toBe('debug');
  });

  it('HTTPS takes the key out of the certificate where --ssl-keyfile is not given', () => {
    expect(http({ sslCertfile: 'both.pem' }).tls).toMatchObject({
      certFile: 'both.pem',
      keyFile: 'both.pem',
    });
    expect(http({}).tls).toBeNull();
  });

  it.each<[Partial<Record<OptionKey, unknown>>, RegExp]>([
    [{ sslKeyfile: 'a' }, /^--ssl-keyfile needs --ssl-certfile/],
    [{ sslCertReqs: 2 }, /^--ssl-cert-reqs needs --ssl-certfile/],
    [{ sslCertfile: 'a', sslCertReqs: 2 }, /^--ssl-cert-reqs 2 needs --ssl-ca-certs/],
    [{ sslCertfile: 'a', sslCertReqs: 1 }, /^--ssl-cert-reqs 1 is not available yet.*use 2/],
  ])('refuses %j', (values, message) => {
    expect(() => http(values)).toThrow(message);
  });
});
