// A compiled constraint.
export interface Grammar {
  readonly maxDepth: number;
}
