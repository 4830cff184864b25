// The flags of svc bench, whose commands measure a model without serving it.

import { type Command, Option } from 'commander';
import { QUANTIZATIONS, type Quantization } from '../config/engine-config.ts';
import { positiveInteger } from './flags.ts';

interface QualityFlags {
  readonly quantization: Quantization;
  readonly textFile: string;
  readonly numTokens: number;
  readonly json?: true;
}

export function addBenchCommands(svc: Command): void {
  const bench = svc.command('bench').description('measure a model on this machine');
  bench
    .command('quality')
    .description('compare the predictions of quantised weights with those of the published ones, on a text')
    .argument('[model]', 'folder of a model, or its name on the hub; without it, the small chat model of svc')
    .addOption(
      new Option('--quantization <scheme>', 'scheme to judge').choices(QUANTIZATIONS).default('int8'),
    )
    .requiredOption(
      '--text-file <path>',
      'text to predict, such as a page of what the model will be used for',
    )
    .option('--num-tokens <n>', 'tokens of the text to look at', positiveInteger, 4096)
    .option('--json', 'print JSON')
    .action(async (model: string | undefined, flags: QualityFlags) => {
      const { benchQuality } = await import('./bench/quality.ts');
      await benchQuality({ ...flags, model, isJson: flags.json === true });
    });
}
