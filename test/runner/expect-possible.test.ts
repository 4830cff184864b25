import { describe, expect, it } from 'vitest';
import { NotAvailableError } from '../../src/errors.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { expectServedOn } from '../../src/runner/expect-possible.ts';
import { goldenFolder } from '../models/golden-cases.ts';

describe('a GPU', () => {
  const configOf = (name: string) => readModelConfig(openModelSource(goldenFolder(name)));

  it('is refused for layers that differ in their heads, before weights are read', () => {
    const refused = () => expectServedOn('cuda', configOf('gemma4'));
    expect(refused).toThrow(NotAvailableError);
    expect(refused).toThrow(/differ in their heads of keys and values .* --device cuda: use --device cpu/);
  });

  it('has all others, and a processor these', () => {
    expect(() => expectServedOn('cuda', configOf('gemma3'))).not.toThrow();
    expect(() => expectServedOn('cpu', configOf('gemma4'))).not.toThrow();
  });
});
