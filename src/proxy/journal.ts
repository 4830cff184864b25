// What a client has of a stream, told by the journal that the instance writes into it: a comment `: <choice> <token ids>` in
// front of each event. From it another instance can go on. stream-relay.ts keeps one for each stream.

/** What the client has of one choice. */
interface ChoiceRecord {
  readonly tokenIds: number[];
  numEvents: number;
}

export class Journal {
  /** When the answer says that it was created; null before its first event. */
  created: number | null = null;
  /** The last event has been sent. */
  isDone = false;
  /** Some event came without its line: the stream cannot be continued elsewhere. */
  isBroken = false;
  /** Events that belong to no choice, such as the usage. */
  numOthers = 0;
  /** Events that the client has. */
  numEvents = 0;
  readonly #choices = new Map<number, ChoiceRecord>();

  get isEmpty(): boolean {
    return this.numEvents === 0;
  }

  choice(index: number): ChoiceRecord {
    let record = this.#choices.get(index);
    if (record === undefined) {
      record = { tokenIds: [], numEvents: 0 };
      this.#choices.set(index, record);
    }
    return record;
  }

  /** All token ids, one list a choice. */
  tokenIds(numChoices: number): readonly number[][] {
    return Array.from({ length: numChoices }, (_, index) => this.#choices.get(index)?.tokenIds ?? []);
  }
}
