import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { expectPossible } from '../../src/runner/expect-possible.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { kvTransferConfig } from '../helpers/kv-instance.ts';
import { goldenFolder } from '../models/golden-cases.ts';

const configOf = (name: string) => readModelConfig(openModelSource(goldenFolder(name)));

describe('a transfer of layers that differ in their heads', () => {
  const start = (pipelineParallelSize: number, kvTransfer = true) => {
    const given = { pipelineParallelSize, kvTransfer: kvTransfer ? kvTransferConfig({}) : null };
    expectPossible({ ...ENGINE_DEFAULTS, ...given }, configOf('gemma4'), null);
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
