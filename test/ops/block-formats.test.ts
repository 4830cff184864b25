// The numbers of GGUF blocks, against those that the format's own package computes.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { unpackBlocks } from '../../src/ops/block-formats.ts';
import { BLOCKS, type BlockDType } from '../../src/ops/dtype.ts';

const goldens = z
  .record(z.string(), z.object({ bytes: z.string(), numbers: z.string() }))
  .parse(JSON.parse(readFileSync(new URL('../fixtures/goldens/gguf-blocks.json', import.meta.url), 'utf8')));

describe('blocks of GGUF', () => {
  it.each(Object.keys(BLOCKS) as BlockDType[])('of %s mean the bits that the format defines', (dtype) => {
    const { bytes, numbers } = goldens[dtype]!;
    const blocks = Buffer.from(bytes, 'base64');
    const expected = new Uint8Array(Buffer.from(numbers, 'base64'));
    const got = new Float32Array((blocks.length / BLOCKS[dtype].bytes) * BLOCKS[dtype].numbers);
    unpackBlocks(dtype, blocks, got);
    expect(Buffer.from(got.buffer).equals(expected)).toBe(true);
  });
});
