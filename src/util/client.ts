// For whom work is done, and until when.

export interface Client {
  /** Where it is aborted, nobody waits for the work any more. */
  readonly signal?: AbortSignal | undefined;
  /** Callers take turns where work has to wait; those without a name are one. */
  readonly caller?: string | undefined;
  /**
   * Counts memory that is taken for it until it has been answered; left out where nobody counts.
   * @throws OverloadedError where there is none for so many bytes more.
   */
  readonly hold?: ((numBytes: number) => void) | undefined;
}
