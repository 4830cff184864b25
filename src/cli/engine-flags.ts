// The flags of commands that run an engine without serving it.

import { type ForeignFlag, foreignNotice } from '../config/foreign-options.ts';
import type { OptionSource } from '../config/merge.ts';
import type { OptionNames } from '../config/option-table.ts';
import { ANSWER_OPTIONS, type OptionKey, SERVE_OPTIONS } from '../config/options.ts';
import { flagOptions, type SplitArguments, withModel } from './flags.ts';

/** The model, and the options of svc serve that the engine has without a server and without other instances. */
export const ENGINE_OPTIONS = serveOptions(
  (key) => key === 'model' || (SERVE_OPTIONS.info(key).isEngineOption === true && key !== 'kvTransferConfig'),
);

/** Those, and what is in answers. */
export const BATCH_OPTIONS = serveOptions(
  (key) => ENGINE_OPTIONS.keys.includes(key) || SERVE_OPTIONS.info(key).group === ANSWER_OPTIONS,
);

function serveOptions(has: (key: OptionKey) => boolean): OptionNames<OptionKey> {
  return {
    keys: SERVE_OPTIONS.keys.filter(has),
    groups: SERVE_OPTIONS.groups,
    info: (key) => SERVE_OPTIONS.info(key),
    find: (name) => SERVE_OPTIONS.find(name),
  };
}

/** What a command was given: its flags as commander read them, and its model. */
export type EngineFlags = (
  opts: Readonly<Record<string, unknown>>,
  model: string | undefined,
) => OptionSource;

/** @param given the command line, and what was taken out of it. */
export function engineFlags(given: SplitArguments<OptionKey>, foreign: readonly ForeignFlag[]): EngineFlags {
  return (opts, model) => {
    for (const flag of foreign) process.stderr.write(`warning: ${foreignNotice(flag)}\n`);
    return withModel(flagOptions(BATCH_OPTIONS, opts, given.dotted), model);
  };
}
