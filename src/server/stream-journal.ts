// Writes down in a stream, for the proxy that reads it, which tokens each event was made of: a comment line in front of
// the event, which every client of the protocol skips. One a prompt that is streamed.

export class StreamJournal {
  /** By sample: tokens that no event has shown yet. */
  readonly #pending: number[][];
  readonly #firstChoice: number;

  /** @param firstChoice number of the first sample's choice in the whole answer */
  constructor(numSamples: number, firstChoice: number) {
    this.#pending = Array.from({ length: numSamples }, () => []);
    this.#firstChoice = firstChoice;
  }

  add(sample: number, tokenIds: readonly number[]): void {
    this.#pending[sample]!.push(...tokenIds);
  }

  /** `events` with their lines; the tokens belong to the last of them. */
  annotate(sample: number, events: string): string {
    const choice = this.#firstChoice + sample;
    const tokenIds = this.#pending[sample]!.splice(0).join(',');
    const blocks = events.split('\n\n').slice(0, -1);
    return blocks
      .map((block, index) => `: ${choice} ${index === blocks.length - 1 ? tokenIds : ''}\n${block}\n\n`)
      .join('');
  }
}
