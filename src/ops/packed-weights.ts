// Packed weights of an earlier load, as the packed cache uses them. A file of them holds the weights of one model in the
// order in which they are loaded.

export interface PackedWeights {
  /** Names all that decides how weights are packed: the build of the kernels and their instruction set. */
  readonly layout: string;
  /** Bytes of all weights so far. */
  readonly byteLength: number;
  /**
   * From now on weights come from the file at `path`, as long as it holds them, and are not packed.
   * @throws Error saying why, where there is no whole file that was written under `key`.
   */
  open(path: string, key: string): void;
  /** Every weight is packed again. Null where each one since `open` came from the file, else the reason why not. */
  close(): string | null;
  /**
   * Writes all weights so far to `path`, which changes once they are there; ops run meanwhile. False where another process
   * is writing the same file.
   * @throws Error saying why they cannot be written.
   */
  save(path: string, key: string): Promise<boolean>;
}
