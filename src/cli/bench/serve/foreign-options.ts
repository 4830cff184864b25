// Options of vLLM's bench serve that svc bench serve lacks, answered as src/config/foreign-options.ts does for svc serve.

import { findIn, harmless, refused } from '../../../config/foreign-options.ts';

const NO_TOKENIZER =
  'prompts are token ids or texts, and the server counts their tokens: no tokenizer is read here';
const ONE_FILE = 'figures go into one file';
const USE_JSON = 'use --output-json <file>';
const STEADY = 'the rate is the same from beginning to end';
const USE_TRACE = 'write the times into a file for --dataset-name trace';
const NAME_THE_FILE = 'say it in the name of the file of --output-json';

/** Null where svc bench serve has the flag, or nobody has. */
export const findForeignOfBench = findIn([
  harmless('--tokenizer', 'value', NO_TOKENIZER),
  harmless('--tokenizer-mode', 'value', NO_TOKENIZER),
  harmless('--trust-remote-code', 'nothing', NO_TOKENIZER),
  harmless('--percentile-metrics', 'value', 'all of ttft, tpot, itl and e2el are always reported'),
  refused('--served-model-name', 'value', 'requests name the model by --model', 'use --model'),
  refused('--save-result', 'nothing', ONE_FILE, USE_JSON),
  refused(
    '--save-detailed',
    'nothing',
    'times of single requests are plotted only',
    'use --output-html <file>',
  ),
  refused('--append-result', 'nothing', 'each measurement has a file of its own', USE_JSON),
  refused('--result-dir', 'value', ONE_FILE, USE_JSON),
  refused('--result-filename', 'value', ONE_FILE, USE_JSON),
  refused('--plot-timeline', 'nothing', 'plots are part of the report', 'use --output-html <file>'),
  refused('--metadata', 'values', 'the figures hold what was measured only', NAME_THE_FILE),
  refused('--label', 'value', 'the figures hold what was measured only', NAME_THE_FILE),
  refused('--ramp-up-strategy', 'value', STEADY, USE_TRACE),
  refused('--ramp-up-start-rps', 'value', STEADY, USE_TRACE),
  refused('--ramp-up-end-rps', 'value', STEADY, USE_TRACE),
  refused(
    '--ready-check-timeout-sec',
    'value',
    'a server that does not answer ends the measurement',
    'wait until its /health answers',
    ['0'],
  ),
  refused('--request-id-prefix', 'value', 'the server names the requests', 'leave it out'),
  refused('--lora-modules', 'values', 'all requests ask one model', 'name the adapter by --model'),
  refused(
    '--profile',
    'nothing',
    'svc has no profiler inside',
    'start the server with node --cpu-prof, or use perf',
  ),
]);
