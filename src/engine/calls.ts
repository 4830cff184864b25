// Calls to the engine thread that wait for their answer, one set for each kind of call.

export class Calls<T> {
  readonly #waiting = new Map<number, { resolve(value: T): void; reject(error: Error): void }>();
  #nextId = 0;

  get size(): number {
    return this.#waiting.size;
  }

  /** `send` is given the id of the call; `settle` with the same id resolves the promise. */
  ask(send: (callId: number) => void): Promise<T> {
    const callId = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(callId, { resolve, reject });
      send(callId);
    });
  }

  settle(callId: number, value: T): void {
    this.#waiting.get(callId)?.resolve(value);
    this.#waiting.delete(callId);
  }

  fail(callId: number, error: Error): void {
    this.#waiting.get(callId)?.reject(error);
    this.#waiting.delete(callId);
  }

  rejectAll(error: Error): void {
    for (const call of this.#waiting.values()) call.reject(error);
    this.#waiting.clear();
  }
}
