// How much of a stream the client has, read from the journal that the instance writes into it: a comment
// `: <choice> <token ids>` before each event. Another instance can continue the stream from it.

interface ChoiceProgress {
  readonly tokenIds: number[];
  numEvents: number;
}

export class StreamProgress {
  /** When the answer says that it was created, in Unix seconds; null before its first event. */
  created: number | null = null;
  isDone = false;
  /** An instance has ended the stream with a fault of its own, or of the request (500). */
  hadFault = false;
  /** Some event came without its journal line: the stream cannot be continued elsewhere. */
  isBroken = false;
  /** Events that belong to no choice, such as the usage. */
  numOthers = 0;
  numEvents = 0;
  readonly #choices = new Map<number, ChoiceProgress>();

  choice(index: number): ChoiceProgress {
    let progress = this.#choices.get(index);
    if (progress === undefined) {
      progress = { tokenIds: [], numEvents: 0 };
      this.#choices.set(index, progress);
    }
    return progress;
  }

  tokenIds(numChoices: number): readonly number[][] {
    return Array.from({ length: numChoices }, (_, index) => this.#choices.get(index)?.tokenIds ?? []);
  }
}
