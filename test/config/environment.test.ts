import { describe, expect, it } from 'vitest';
import {
  allowsAdapterUpdates,
  downloadTimeout,
  expectAddress,
  isDevMode,
  isOffline,
  usesAlternativeHub,
} from '../../src/config/environment.ts';
import { ConfigError } from '../../src/errors.ts';

describe.each([
  ['SVC_SERVER_DEV_MODE', isDevMode],
  ['SVC_ALLOW_RUNTIME_LORA_UPDATING', allowsAdapterUpdates],
  ['SVC_USE_ALT_MODEL_HUB', usesAlternativeHub],
  ['HF_HUB_OFFLINE', isOffline],
])('%s', (name, read) => {
  it('is on or off in any of the usual spellings', () => {
    for (const on of ['1', 'true', 'True', 'YES', 'on']) expect(read({ [name]: on })).toBe(true);
    for (const off of ['0', 'false', 'False', 'NO', 'off', '', undefined]) {
      expect(read({ [name]: off })).toBe(false);
    }
  });

  it.each(['maybe', 'xx', '2', 'tru'])('is nothing else: %s', (value) => {
    expect(() => read({ [name]: value })).toThrow(ConfigError);
    expect(() => read({ [name]: value })).toThrow(
      `${name}: expected 1 or 0, true or false, yes or no, on or off, got "${value}"`,
    );
  });
});

describe('HF_HUB_DOWNLOAD_TIMEOUT', () => {
  it('is a number of seconds', () => {
    expect(downloadTimeout({ HF_HUB_DOWNLOAD_TIMEOUT: '0.5' })).toBe(0.5);
    expect(downloadTimeout({ HF_HUB_DOWNLOAD_TIMEOUT: '' })).toBeNull();
    expect(downloadTimeout({})).toBeNull();
  });

  it.each(['abc', '0', '-1', '10s', 'Infinity'])('is not %s', (value) => {
    expect(() => downloadTimeout({ HF_HUB_DOWNLOAD_TIMEOUT: value })).toThrow(ConfigError);
    expect(() => downloadTimeout({ HF_HUB_DOWNLOAD_TIMEOUT: value })).toThrow(
      `HF_HUB_DOWNLOAD_TIMEOUT: expected a number of seconds above 0 and up to 1000000, got "${value}"`,
    );
  });
});

it.each(['notaurl', 'localhost:8080', 'ftp://hub', 'https://a b'])('an address is not %s', (address) => {
  expect(() => expectAddress('HF_ENDPOINT', address, 'https://huggingface.co')).toThrow(
    `HF_ENDPOINT: expected a URL such as https://huggingface.co, got "${address}"`,
  );
});
