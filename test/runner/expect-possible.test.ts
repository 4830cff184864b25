import { describe, expect, it } from 'vitest';
import { ConfigError, NotAvailableError } from '../../src/errors.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { expectPossible, expectServedOn } from '../../src/runner/expect-possible.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { kvTransferConfig } from '../helpers/kv-instance.ts';
import { goldenFolder } from '../models/golden-cases.ts';

const configOf = (name: string) => readModelConfig(openModelSource(goldenFolder(name)));

describe('a GPU', () => {
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

describe('a transfer of layers that differ in their heads', () => {
  const start = (pipelineParallelSize: number, kvTransfer = true) => {
    const given = { pipelineParallelSize, kvTransfer: kvTransfer ? kvTransferConfig({}) : null };
    expectPossible({ ...ENGINE_DEFAULTS, ...given }, configOf('gemma4'));
  };

  it('is possible in stages that have layers with each of the heads', () => {
    expect(() => start(1)).not.toThrow();
    expect(() => start(3, false)).not.toThrow();
  });

  it('is refused where a stage has not, which is named', () => {
    expect(() => start(3)).toThrow(ConfigError);
    expect(() => start(3)).toThrow(
      /^--pipeline-parallel-size 3 has a stage of the layers 0 to 0, which have the same heads .* use fewer stages$/,
    );
  });
});
