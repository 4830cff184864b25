// What is said where there is too little memory, of a GPU or of the machine.

import { expect, it } from 'vitest';
import { ConfigError, DeviceMemoryError, HostMemoryError } from '../../src/errors.ts';
import { explained, forKvCache, forSteps } from '../../src/runner/device-memory.ts';

it.each([
  { cache: 'a cache with a share of the memory', givenBytes: null, option: 'gpu-memory-utilization' },
  { cache: 'a cache of a given size', givenBytes: 2 ** 20, option: 'kv-cache-memory-bytes' },
])('too little memory beside $cache is mended by --$option', ({ givenBytes, option }) => {
  const cause = new DeviceMemoryError('the GPU could not allocate memory');
  const ofCache = explained(cause, forKvCache(givenBytes));
  expect(ofCache).toBeInstanceOf(ConfigError);
  expect(ofCache).toMatchObject({
    param: option,
    cause,
    message: expect.stringMatching(`: lower --${option}$`),
  });
  expect(explained(cause, forSteps(givenBytes))).toMatchObject({
    message: expect.stringContaining(
      `a step finds no memory on the GPU: ${cause.message}: lower --${option}, `,
    ),
  });
});

it('too little memory on the machine is mended by a smaller cache or a higher limit', () => {
  const cause = new HostMemoryError('cannot allocate 7 bytes: Cannot allocate memory');
  expect(explained(cause, forKvCache(null))).toMatchObject({
    name: 'ConfigError',
    message:
      'the KV cache finds no memory on this machine: cannot allocate 7 bytes: Cannot allocate memory: lower ' +
      '--gpu-memory-utilization or --max-num-seqs, give it less by --kv-cache-memory-bytes, or raise the limit of the process (ulimit -v)',
  });
  expect(explained(cause, forKvCache(2 ** 20))).toMatchObject({
    message: expect.stringMatching(
      /: lower --kv-cache-memory-bytes, or raise the limit of the process \(ulimit -v\)$/,
    ),
  });
});

it('other errors stay as they are', () => {
  const other = new Error('other');
  expect(explained(other, forSteps(null))).toBe(other);
});
