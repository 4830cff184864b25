// Which values of which options this version cannot serve: each gets an error that says so, never silence.

import { NotAvailableError } from '../errors.ts';
import type { DTypeOption } from './engine-config.ts';
import type { OptionValues } from './options.ts';

type Checked = Pick<OptionValues, 'sslCertReqs' | 'tensorParallelSize' | 'device' | 'dtype'>;

/**
 * Refuses what would matter and is not there yet.
 * @throws NotAvailableError naming option, value and what to use instead.
 */
export function checkAvailable(values: Checked): void {
  if (values.tensorParallelSize > 1 && values.device === 'reference') {
    throw notAvailable(
      'tensor-parallel-size',
      `${values.tensorParallelSize} with --device reference`,
      'use --device cpu or cuda, or 1',
    );
  }
  if (values.sslCertReqs === 1) {
    throw notAvailable('ssl-cert-reqs', 1, 'use 2, which needs a certificate of every client, or 0');
  }
  if (values.device === 'cpu') expectNoF16(values.dtype);
}

/**
 * @param why the model is computed on a processor, behind a reason
 * @throws NotAvailableError for float16, which processors do not compute with.
 */
export function expectNoF16(dtype: DTypeOption, why = ''): void {
  if (dtype !== 'float16') return;
  throw new NotAvailableError(
    `--dtype float16 is computed on an NVIDIA GPU, not on the processor${why}: use bfloat16, or auto, which computes a checkpoint in ` +
      'float16 in it too',
    { param: 'dtype' },
  );
}

function notAvailable(option: string, value: unknown, instead: string): NotAvailableError {
  const shown = typeof value === 'string' ? value : JSON.stringify(value);
  return new NotAvailableError(
    `--${option} ${shown} is not available yet in this version of svc: ${instead}`,
    { param: option },
  );
}
