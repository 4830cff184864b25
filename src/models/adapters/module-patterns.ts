// What the patterns of an adapter's configuration mean.

/** A pattern for the last parts of a name, as PEFT matches those of rank_pattern and alpha_pattern. */
export function endPattern(pattern: string): string {
  return `^(?:.*\\.)?(?:${pattern})$`;
}

/** A pattern for a whole name. */
export function wholePattern(pattern: string): string {
  return `^(?:${pattern})$`;
}
