// A file as a hub lists it: its address, and the hash that proves it whole.

import * as z from 'zod';

/** What a hub calls a file decides where it is written here: no name leads out of the model's folder. */
export const remotePath = z
  .string()
  .refine((path) => path.split('/').every((step) => !['', '.', '..'].includes(step)), {
    error: 'must be a path inside the folder of the model',
  });

/** One file of a model on a hub. */
export interface RemoteFile {
  /** Name inside the model's folder. */
  readonly path: string;
  /** In bytes. */
  readonly size: number;
  /** Hex digest of the content: plain SHA-256, or what git calls a blob. */
  readonly hash: { readonly algorithm: 'sha256' | 'git-blob'; readonly hex: string };
  readonly url: string;
}
