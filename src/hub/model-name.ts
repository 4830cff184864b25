// How models on a hub are named: org/name, with @revision, and for GGUF with :quantisation or /file.gguf.

import { isGgufPath } from '../util/model-file.ts';

/** Part of paths and addresses; no step of it may lead upwards. */
const REVISION = /^(?!.*(^|\/)\.\.?(\/|$))[\w.-]+(\/[\w.-]+)*$/;
const NAME = /^[A-Za-z0-9][\w.-]*(\/[A-Za-z0-9][\w.-]*)?$/;
const QUANTIZATION = /^[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*$/;
const FILE = /^([^/]+\/[^/]+)\/((?:[\w][\w.-]*\/)*[\w][\w.-]*\.gguf)$/i;

export interface HubModelName {
  /** `org/name` */
  readonly repository: string;
  /** Branch, tag or commit; null where none is named. */
  readonly revision: string | null;
  /** Which of the repository's GGUF files is meant; null is none in particular. */
  readonly gguf: GgufChoice | null;
}

/** A file by its path, or the one whose name ends in the quantisation. */
export type GgufChoice = { readonly file: string } | { readonly quantization: string };

/** Null for what is no name on a hub. */
export function parseModelName(text: string): HubModelName | null {
  const at = text.indexOf('@');
  const name = at < 0 ? text : text.slice(0, at);
  const revision = at < 0 ? null : text.slice(at + 1);
  if (revision !== null && !isRevision(revision)) return null;
  const file = FILE.exec(name);
  if (file !== null) return named(file[1]!, revision, { file: file[2]! });
  const [repository = '', quantization, ...rest] = name.split(':');
  if (quantization === undefined) return named(repository, revision, null);
  return rest.length === 0 && QUANTIZATION.test(quantization)
    ? named(repository, revision, { quantization })
    : null;
}

export function isRevision(text: string): boolean {
  return REVISION.test(text);
}

function named(repository: string, revision: string | null, gguf: GgufChoice | null): HubModelName | null {
  // A name with this end is the path of a file that does not exist.
  const isName = NAME.test(repository) && !isGgufPath(repository);
  return isName ? { repository, revision, gguf } : null;
}
