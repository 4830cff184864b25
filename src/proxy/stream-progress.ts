// How much of a stream the client has, read from the journal that the instance writes into it: a comment
// `: <choice> <token ids>` before each event. Another instance can continue the stream from it.

interface ChoiceProgress {
  readonly tokenIds: number[];
  numTokens: number;
  numEvents: number;
}

/** Of all choices. As text they are 8 MB at most, which instances take beside the body of a client. */
const MAX_TOKENS = 1_000_000;

export class StreamProgress {
  /** When the answer says that it was created, in Unix seconds; null before its first event. */
  created: number | null = null;
  isDone = false;
  /** An instance has ended the stream with a fault of its own, or of the request (500). */
  hadFault = false;
  /** Some event came without its journal line, or there are too many tokens: the stream cannot be continued elsewhere. */
  isBroken = false;
  /** HTTP status of the error that the client was told within the stream; null where it was told none. */
  errorStatus: number | null = null;
  /** Events that belong to no choice, such as the usage. */
  numOthers = 0;
  numEvents = 0;
  #numTokens = 0;
  readonly #choices = new Map<number, ChoiceProgress>();

  choice(index: number): ChoiceProgress {
    let progress = this.#choices.get(index);
    if (progress === undefined) {
      progress = { tokenIds: [], numTokens: 0, numEvents: 0 };
      this.#choices.set(index, progress);
    }
    return progress;
  }

  /** The client gets an event of this choice. */
  add(choice: ChoiceProgress, tokenIds: readonly number[]): void {
    choice.numEvents += 1;
    this.numEvents += 1;
    choice.numTokens += tokenIds.length;
    this.#numTokens += tokenIds.length;
    if (this.#numTokens <= MAX_TOKENS) for (const id of tokenIds) choice.tokenIds.push(id);
    else if (!this.isBroken) this.#forgetTokens();
  }

  #forgetTokens(): void {
    this.isBroken = true;
    for (const { tokenIds } of this.#choices.values()) tokenIds.splice(0);
  }

  /** The client has something of the answer. */
  get hasBegun(): boolean {
    return this.numEvents > 0;
  }

  tokenIds(numChoices: number): readonly number[][] {
    return Array.from({ length: numChoices }, (_, index) => this.#choices.get(index)?.tokenIds ?? []);
  }
}
