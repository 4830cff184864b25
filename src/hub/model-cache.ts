// Where copies of a model are on this machine: each hub's own tools have a layout, which svc shares with them.

import type { RemoteFile } from './remote-file.ts';

/** The copies of one model, in one of the layouts. */
export interface ModelCache {
  readonly folder: string;
  /** File that the process which writes here holds. */
  readonly lock: string;
  /** The folder that holds the files of this state of the model under their names. */
  snapshot(commit: string): string;
  /** Whether a snapshot has the whole file already. */
  holds(file: RemoteFile, commit: string): Promise<boolean>;
  /** Whether its bytes are at its target: another snapshot may have fetched them. */
  hasContent(file: RemoteFile, commit: string): Promise<boolean>;
  /** Where the bytes of the file go. */
  target(file: RemoteFile, commit: string): string;
  /** Makes the file at its target a file of the snapshot. */
  publish(file: RemoteFile, commit: string): Promise<void>;
  /** Says that the snapshot is the newest of its revision. */
  finish(commit: string): Promise<void>;
  /** Folders that may hold the newest state that was downloaded, the likeliest first. */
  latest(): Promise<readonly string[]>;
}

/** A copy of a model, for lists. */
export interface CachedModel {
  /** `org/name` */
  readonly name: string;
  /** Branches, tags or commits. */
  readonly revisions: readonly string[];
  readonly bytes: number;
  readonly path: string;
  /** File that the process which writes there holds. */
  readonly lock: string;
}
