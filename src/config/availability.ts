// Which values of which options this version cannot serve: each gets an error that says so, never silence.

import { NotAvailableError } from '../errors.ts';
import type { DTypeOption } from './engine-config.ts';
import type { OptionValues } from './options.ts';

type Checked = Pick<OptionValues, 'sslCertReqs' | 'tensorParallelSize' | 'device'>;

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
}

export function availableDType(dtype: OptionValues['dtype']): DTypeOption {
  if (dtype === 'float16') {
    throw notAvailable(
      'dtype',
      dtype,
      'use auto, which computes a float16 checkpoint in bfloat16, or float32',
    );
  }
  return dtype;
}

function notAvailable(option: string, value: unknown, instead: string): NotAvailableError {
  const shown = typeof value === 'string' ? value : JSON.stringify(value);
  return new NotAvailableError(
    `--${option} ${shown} is not available yet in this version of svc: ${instead}`,
    { param: option },
  );
}
