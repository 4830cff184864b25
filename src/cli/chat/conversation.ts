// What was said, and how much of it the model still gets: the oldest exchanges go when the context is full.

import type { ChatTurn, MessageContent } from '../api-client.ts';

/** Once something must go, this share of the context is emptied: the next messages then find their prefix in the cache. */
const KEPT_SHARE = 0.5;

/** An image takes about as many tokens as a text of so many characters. */
const CHARACTERS_OF_IMAGE = 4000;

export interface Exchange {
  readonly user: MessageContent;
  readonly assistant: string;
}

export class Conversation {
  /** Null where there is none. */
  system: string | null;
  #exchanges: Exchange[] = [];
  /** How many of the oldest exchanges are not sent any more. */
  #numForgotten = 0;
  /** As the server counted them last, the words of the template included. */
  #tokensPerCharacter = 0;

  constructor(system: string | null) {
    this.system = system;
  }

  get exchanges(): readonly Exchange[] {
    return this.#exchanges;
  }

  get numForgotten(): number {
    return this.#numForgotten;
  }

  /** What to send to have `message` answered. */
  request(message: MessageContent): ChatTurn[] {
    return [...this.#remembered(), { role: 'user', content: message }];
  }

  transcript(): ChatTurn[] {
    return [...this.#systemTurns(), ...this.#exchanges.flatMap(turns)];
  }

  /** @param numTokens of the request and its answer together; null where the server does not count. */
  add(exchange: Exchange, numTokens: number | null): void {
    this.#exchanges.push(exchange);
    if (numTokens !== null) this.#tokensPerCharacter = numTokens / length(this.#remembered());
  }

  clear(): void {
    this.#exchanges = [];
    this.#numForgotten = 0;
  }

  restore(system: string | null, exchanges: readonly Exchange[]): void {
    this.clear();
    this.system = system;
    this.#exchanges = [...exchanges];
  }

  /** Forgets what leaves no room for `message` and an answer of `answerTokens`, by what tokens were worth so far. */
  makeRoom(message: MessageContent, answerTokens: number, contextLength: number): void {
    const tokens = (list: readonly ChatTurn[]): number => this.#tokensPerCharacter * length(list);
    const fits = (): boolean => tokens(this.request(message)) + answerTokens <= contextLength;
    if (fits()) return;
    while (!fits() || tokens(this.#remembered()) > KEPT_SHARE * contextLength) if (!this.forget(1)) return;
  }

  /** Forgets `count` more exchanges, as far as there are so many. @returns whether there were any. */
  forget(count: number): boolean {
    const before = this.#numForgotten;
    this.#numForgotten = Math.min(this.#exchanges.length, before + count);
    return this.#numForgotten > before;
  }

  /** Forgets the older half. @returns whether there was anything to forget. */
  forgetHalf(): boolean {
    return this.forget(Math.ceil((this.#exchanges.length - this.#numForgotten) / 2));
  }

  /** Restores the messages that were forgotten, where that did not help. */
  remember(numForgotten: number): void {
    this.#numForgotten = numForgotten;
  }

  #remembered(): ChatTurn[] {
    return [...this.#systemTurns(), ...this.#exchanges.slice(this.#numForgotten).flatMap(turns)];
  }

  #systemTurns(): ChatTurn[] {
    return this.system === null ? [] : [{ role: 'system', content: this.system }];
  }
}

function turns({ user, assistant }: Exchange): ChatTurn[] {
  return [
    { role: 'user', content: user },
    { role: 'assistant', content: assistant },
  ];
}

function length(list: readonly ChatTurn[]): number {
  return list.reduce((sum, { content }) => sum + lengthOf(content), 0);
}

function lengthOf(content: MessageContent): number {
  if (typeof content === 'string') return content.length;
  return content.reduce(
    (sum, part) => sum + (part.type === 'text' ? part.text.length : CHARACTERS_OF_IMAGE),
    0,
  );
}
