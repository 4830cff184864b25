// An engine as svc serve starts it, for measuring without HTTP.

import type { EngineConfig } from '../../config/engine-config.ts';
import { engineConfig, environmentOptions, mergeOptions, type OptionSource } from '../../config/merge.ts';
import { SERVE_OPTIONS } from '../../config/options.ts';
import { InferenceEngine } from '../../engine/inference-engine.ts';
import { ConfigError } from '../../errors.ts';
import { downloadProgress } from '../../hub/download-progress.ts';
import { withFolders } from '../../models/model-folder.ts';
import { readModelConfig } from '../../models/registry.ts';
import { openConfiguredSource } from '../../models/source/configured-source.ts';
import { startLoadProgress } from '../../observability/load-progress.ts';

export interface BenchEngine {
  readonly engine: InferenceEngine;
  readonly config: EngineConfig;
}

/** What a measurement asks of the engine, in tokens of each prompt and answer, and in prompts that run at the same time. */
interface Needs {
  readonly inputLen: number;
  readonly outputLen: number;
  readonly batchSize: number;
}

/**
 * @param flags the engine's options of the command line.
 * @param needs null where a file gives the prompts: then the tokenizer is loaded, too.
 * @throws ConfigError and NotAvailableError for the options, ModelLoadError for the model.
 */
export async function startBenchEngine(flags: OptionSource, needs: Needs | null): Promise<BenchEngine> {
  const merged = mergeOptions(environmentOptions(SERVE_OPTIONS, process.env), flags);
  const given = engineConfig(merged.values.model ?? '', merged);
  const progress = await startLoadProgress((line) => process.stderr.write(`${line}\n`));
  try {
    const config = await withFolders(
      { ...given, skipTokenizerInit: needs !== null },
      { onProgress: downloadProgress(progress.update) },
    );
    // Said before anything is loaded.
    if (needs !== null) checkNeeds(config, needs);
    const engine = await InferenceEngine.start(config, {
      onProgress: (fraction, what) => progress.update(fraction, what),
      onWarning: (message) => process.stderr.write(`warning: ${message}\n`),
    });
    return { engine, config };
  } finally {
    progress.stop();
  }
}

function checkNeeds(config: EngineConfig, { inputLen, outputLen, batchSize }: Needs): void {
  if (batchSize > config.maxNumSeqs) {
    throw new ConfigError(
      `--batch-size ${batchSize} is more than --max-num-seqs ${config.maxNumSeqs}: lower the first or raise the second`,
      { param: 'batch-size' },
    );
  }
  const { maxPositionEmbeddings } = readModelConfig(openConfiguredSource(config));
  // How much of the memory is left, nobody knows yet.
  const context =
    config.maxModelLen === 'auto' ? maxPositionEmbeddings : (config.maxModelLen ?? maxPositionEmbeddings);
  if (inputLen + outputLen <= context) return;
  const fix = context < maxPositionEmbeddings ? ', or raise --max-model-len' : '';
  throw new ConfigError(
    `--input-len ${inputLen} and --output-len ${outputLen} together are longer than the context of ${context} tokens: ` +
      `lower one of them${fix}`,
    { param: 'input-len' },
  );
}
