// The flags of svc run-batch.

import { type Command, Option } from 'commander';
import { BATCH_OPTIONS, type EngineFlags } from './engine-flags.ts';
import { addOptions } from './flags.ts';
import type { RunBatchOptions } from './run-batch/run-batch.ts';

export function addBatchCommand(svc: Command, engineFlags: EngineFlags): void {
  const command = svc
    .command('run-batch')
    .description('answer the requests of a file')
    .argument(
      '[model]',
      'folder or GGUF file of a model, or its name on the hub; without it, the small chat model of svc',
    )
    .addOption(required('-i, --input-file <file>', 'requests, one JSON object a line'))
    .addOption(required('-o, --output-file <file>', 'file that the answers go to, one JSON object a line'))
    .addHelpOption(batch('-h, --help', 'print this help'))
    .addHelpText('after', NOTES)
    .action(async (model: string | undefined, flags: RunBatchOptions & Record<string, unknown>) => {
      const { runBatch } = await import('./run-batch/run-batch.ts');
      await runBatch(flags, engineFlags(flags, model));
    });
  addOptions(BATCH_OPTIONS, command);
}

function batch(flags: string, description: string): Option {
  return new Option(flags, description).helpGroup('Batch:');
}

function required(flags: string, description: string): Option {
  return batch(flags, description).makeOptionMandatory();
}

const NOTES = `
A request is a line such as
  {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions",
   "body": {"messages": [{"role": "user", "content": "Hello"}]}}
Answers are in the order of the requests. A request that is wrong has an answer
with an error and stops nothing. The same command goes on with a batch that was
interrupted. Input and output are files, never stdin or stdout.

Example:
  svc run-batch ./Qwen2.5-0.5B-Instruct -i requests.jsonl -o answers.jsonl`;
