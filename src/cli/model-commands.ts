// The flags of svc download and svc models, the commands that look after the models on this machine.

import type { Command } from 'commander';

interface HubFlags {
  readonly revision?: string;
  readonly downloadDir?: string;
}

const REVISION = ['--revision <name>', 'branch, tag or commit (default: the main branch)'] as const;
const DOWNLOAD_DIR = ['--download-dir <folder>', "where models are kept (default: the hub's cache)"] as const;

export function addModelCommands(svc: Command): void {
  addDownload(svc);
  const models = svc.command('models').description('list, inspect and remove models');
  models
    .command('list')
    .alias('ls')
    .description('list the models that were downloaded')
    .option(...DOWNLOAD_DIR)
    .option('--json', 'print JSON')
    .action(async (flags: HubFlags & { readonly json?: true }) => {
      const { listModels } = await import('./models/list.ts');
      await listModels({ ...flags, isJson: flags.json === true });
    });
  models
    .command('inspect')
    .description('tell what a model is, whether it runs here, and what memory it takes at each quantisation')
    .argument('<model>', 'folder, GGUF file, or name on the hub, of which no weights are downloaded')
    .option(...REVISION)
    .option(...DOWNLOAD_DIR)
    .option('--json', 'print JSON')
    .action(async (model: string, flags: HubFlags & { readonly json?: true }) => {
      const { inspectModel } = await import('./models/inspect.ts');
      await inspectModel(model, { ...flags, isJson: flags.json === true });
    });
  models
    .command('rm')
    .description('remove downloaded models, all revisions of each')
    .argument('<model...>', 'names as svc models list shows them')
    .option(...DOWNLOAD_DIR)
    .action(async (names: readonly string[], flags: HubFlags) => {
      const { removeModels } = await import('./models/remove.ts');
      await removeModels(names, flags);
    });
}

function addDownload(svc: Command): void {
  svc
    .command('download')
    .description('download a model, so that it can be served without a network')
    .argument(
      '<model>',
      'its name on the hub: org/name, org/name@revision, org/name:Q4_K_M, org/name/file.gguf',
    )
    .option(...REVISION)
    .option(...DOWNLOAD_DIR)
    .addHelpText('after', DOWNLOAD_NOTES)
    .action(async (model: string, flags: HubFlags) => {
      const { download } = await import('./models/download.ts');
      await download(model, flags);
    });
}

const DOWNLOAD_NOTES = `
Only what svc reads is fetched. What was cut off goes on where it ended, and
each file is checked against its hash. The last line is where the model is.

SVC_USE_ALT_MODEL_HUB=true downloads from the alternative hub. HF_TOKEN, or
MODELSCOPE_API_TOKEN there, gives access to private and gated models.`;
