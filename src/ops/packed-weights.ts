// Packed weights of an earlier load, as the packed cache uses them. A file of them holds the weights of one model in the
// order in which they are loaded.

export interface PackedWeights {
  /** Names all that decides how weights are packed: the build of the kernels and their instruction set. */
  readonly layout: string;
  /** Bytes of the weights that were loaded before `close`: what is loaded later is another model's. */
  readonly byteLength: number;
  /**
   * From now on weights come from the file at `path`, as long as it holds them, and are not packed.
   * @throws Error saying why, where there is no whole file that was written under `key`.
   */
  open(path: string, key: string): void;
  /** The load ends. Null where each weight since `open` came from the file, else the reason why not. */
  close(): string | null;
  /**
   * Writes the same weights to `path`, which changes once they are there; ops run meanwhile. False where another process
   * is writing the same file.
   * @throws Error saying why they cannot be written.
   */
  save(path: string, key: string): Promise<boolean>;
}
