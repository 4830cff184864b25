// A peer of this host can hand over memory that is not what it says; nothing outside of it is ever read.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { probeNative } from '../../src/native/native.ts';
import { needsNative } from '../helpers/needs.ts';
import { rawFrame, rawHello } from '../helpers/raw-frames.ts';
import { range, transferNodes } from '../helpers/transfer-node.ts';

const SHAPE = { layers: 2, blocks: 8, layerBlockBytes: 4096 };
const MEMORY_BYTES = SHAPE.layers * SHAPE.blocks * SHAPE.layerBlockBytes;
const NATIVE = fileURLToPath(new URL('../../native', import.meta.url));

const node = transferNodes();

beforeAll(() => {
  if (probeNative() === null) return;
  const { status, stderr } = spawnSync(
    'make',
    ['--silent', '-C', NATIVE, 'WERROR=-Werror', 'build/shm-peer'],
    {
      encoding: 'utf8',
    },
  );
  expect(stderr).toBe('');
  expect(status).toBe(0);
});

type Memory = 'none' | 'pipe' | 'file' | 'unsealed' | 'sealed';

/** @returns what was said before the connection was closed. */
function lie(address: string, memory: Memory, memoryBytes: number, input: Uint8Array): string {
  const args = [address, memory, String(memoryBytes)];
  const { stdout, status } = spawnSync(`${NATIVE}/build/shm-peer`, args, {
    input,
    encoding: 'utf8',
    timeout: 30_000,
  });
  expect(status).toBe(0);
  return stdout;
}

/** A frame as it goes over shared memory: without the pieces. */
function frame(firstBlock: number, sourceBlock: number): Buffer {
  const piece = new Uint8Array(SHAPE.layerBlockBytes);
  return rawFrame({ ticket: 5n, firstBlock, pieces: [piece], sourceBlock }).subarray(0, 44);
}

describe('memory', needsNative, () => {
  it.each<[string, Memory, number, number, RegExp]>([
    ['that is missing', 'none', 0, 8, /^no KV memory to read from$/],
    ['of no blocks', 'sealed', MEMORY_BYTES, 0, /^no KV memory to read from$/],
    ['of too many blocks', 'sealed', MEMORY_BYTES, 2 ** 31, /^no KV memory to read from$/],
    [
      'smaller than it says',
      'sealed',
      MEMORY_BYTES - 1,
      8,
      /^the shared memory of the peer has 65535 bytes, not 65536$/,
    ],
    ['that may shrink', 'unsealed', MEMORY_BYTES, 8, /^the shared memory of the peer may shrink$/],
    ['in a file, which may shrink', 'file', MEMORY_BYTES, 8, /^the shared memory of the peer may shrink$/],
    ['that is none', 'pipe', 0, 8, /^the shared memory of the peer has 0 bytes, not 65536$/],
  ])('%s is refused', (_, memory, memoryBytes, blocks, reason) => {
    const d = node(SHAPE);
    expect(lie(d.address('shm'), memory, memoryBytes, rawHello(SHAPE, { blocks }))).toMatch(reason);
  });

  it('of more bytes than numbers can say is refused', () => {
    const d = node({ layers: 65_536, blocks: 1, layerBlockBytes: 1 << 20 }, 0);
    const hello = rawHello(d.shape, { blocks: 2 ** 31 - 1 });
    expect(lie(d.address('shm'), 'sealed', 4096, hello)).toBe('more KV memory than there can be');
  });
});

it('a block that is not in the memory is not read', needsNative, () => {
  const d = node(SHAPE);
  d.receive(5n, 2);
  for (const sourceBlock of [8, 2 ** 31, 2 ** 32 - 1]) {
    const input = Buffer.concat([rawHello(SHAPE), frame(0, 7), frame(1, sourceBlock)]);
    const said = lie(d.address('shm'), 'sealed', MEMORY_BYTES, input);
    expect(said).toBe("a block outside of the peer's KV memory");
  }
  expect(d.engine.progress(5n)).toBe(1);
  expect(range(2).every((block) => d.memory.read(0, block).every((byte) => byte === 0))).toBe(true);
});
