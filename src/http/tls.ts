// Reads and tries the files of HTTPS before the port is bound, so that the error can name the wrong option.

import { readFile } from 'node:fs/promises';
import type { ServerOptions } from 'node:https';
import { createSecureContext } from 'node:tls';
import type { TlsConfig } from '../config/serve-config.ts';
import { ConfigError, messageOf } from '../errors.ts';

/** @throws ConfigError naming the option whose file cannot be read or used. */
export async function readTls(config: TlsConfig): Promise<ServerOptions> {
  const { certFile, keyFile, caFile, needsClientCert } = config;
  const cert = await readPem('ssl-certfile', certFile);
  const key = await readKey(config);
  const ca = caFile === null ? undefined : await readPem('ssl-ca-certs', caFile);
  try {
    createSecureContext({ cert, key, ca });
  } catch (cause) {
    const files = [...new Set([certFile, keyFile, ...(caFile === null ? [] : [caFile])])].join(', ');
    throw new ConfigError(
      `--ssl-certfile: ${files} cannot be used together (${messageOf(cause)}): expected a certificate and its private key in PEM`,
      { param: 'ssl-certfile', cause },
    );
  }
  return {
    cert,
    key,
    ...(ca !== undefined && { ca }),
    requestCert: needsClientCert,
    rejectUnauthorized: needsClientCert,
  };
}

async function readKey({ certFile, keyFile }: TlsConfig): Promise<string> {
  const option = keyFile === certFile ? 'ssl-certfile' : 'ssl-keyfile';
  const text = await readPem(option, keyFile);
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)) return text;
  throw new ConfigError(
    `--${option} ${keyFile} holds no private key: give --ssl-keyfile the file with that of the certificate`,
    { param: option },
  );
}

async function readPem(option: string, path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new ConfigError(`--${option} ${path} cannot be read: ${messageOf(cause)}`, {
      param: option,
      cause,
    });
  });
  if (text.includes('-----BEGIN ')) return text;
  throw new ConfigError(`--${option} ${path} is no PEM file: expected -----BEGIN in it`, { param: option });
}
