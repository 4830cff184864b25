// A conversation with a model: asks with all that was said, less the oldest of it when the context is full.

import { ContextFullError, type ImagePart, type MessageContent, streamAnswer } from '../api-client.ts';
import type { Connection } from './connect.ts';
import type { Conversation } from './conversation.ts';
import { type AnswerEnd, writeAnswer } from './converse.ts';
import type { Output } from './output.ts';
import { Parameters } from './parameters.ts';

/** Tokens of the context that a message must leave for its answer, and the share that is enough of a short context. */
const ANSWER_TOKENS = 512;
const ANSWER_SHARE = 0.25;

export class ChatSession {
  readonly conversation: Conversation;
  readonly parameters = new Parameters();
  readonly output: Output;
  readonly connection: Connection;
  readonly #attached: ImagePart[] = [];

  constructor(connection: Connection, conversation: Conversation, output: Output) {
    this.connection = connection;
    this.conversation = conversation;
    this.output = output;
  }

  /** Goes with the next message. */
  attach(image: ImagePart): void {
    this.#attached.push(image);
  }

  /** What is broken off stays in the conversation as far as it came; what failed does not. */
  async answer(text: string, signal: AbortSignal): Promise<void> {
    const message = this.#withImages(text);
    const { numForgotten } = this.conversation;
    this.#makeRoom(message);
    const { text: answer, numTokens, isCutOff } = await this.#ask(message, numForgotten, signal);
    if (isCutOff) this.output.aside('(cut off: no more tokens were allowed, or fitted into the context)');
    if (answer !== '') this.conversation.add({ user: message, assistant: answer }, numTokens);
  }

  /** They are gone whatever becomes of the message: a model that sees none must not refuse all that follow. */
  #withImages(text: string): MessageContent {
    const images = this.#attached.splice(0);
    return images.length === 0 ? text : [...images, { type: 'text', text }];
  }

  #makeRoom(message: MessageContent): void {
    const { contextLength } = this.connection;
    if (contextLength === null) return;
    const answerTokens = this.parameters.maxTokens ?? Math.min(ANSWER_TOKENS, ANSWER_SHARE * contextLength);
    this.conversation.makeRoom(message, answerTokens, contextLength);
  }

  /** Asks again with less, as long as the server finds it too much: it counts exactly. */
  async #ask(message: MessageContent, numForgotten: number, signal: AbortSignal): Promise<AnswerEnd> {
    for (;;) {
      try {
        return await writeAnswer(this.#stream(message, numForgotten, signal), this.output, signal);
      } catch (error) {
        if (error instanceof ContextFullError && this.conversation.forgetHalf()) continue;
        // The message is gone, and what made room for it is not: the next one may be shorter.
        this.conversation.remember(numForgotten);
        throw error;
      }
    }
  }

  async *#stream(message: MessageContent, numForgotten: number, signal: AbortSignal) {
    const { client, model } = this.connection;
    const body = { ...this.parameters.fields, model, messages: this.conversation.request(message) };
    let isFirst = true;
    for await (const part of streamAnswer(client, '/chat/completions', body, signal)) {
      if (isFirst) this.#tellForgotten(this.conversation.numForgotten - numForgotten);
      isFirst = false;
      yield part;
    }
  }

  #tellForgotten(count: number): void {
    if (count === 0) return;
    const what =
      count === 1 ? 'the oldest message and its answer' : `the ${count} oldest messages and their answers`;
    this.output.note(`(the context is full: the model no longer sees ${what})`);
  }
}
