// What a transfer at the producer (P) does when: a pure state machine, from the arrival of its request until nothing reads
// its blocks. Whatever goes wrong, P gives up the blocks, and D computes the prompt itself.

import type { SendType } from '../../config/kv-transfer-config.ts';
import type { Deadlines } from './deadlines.ts';
import type { Answer, MessageOf, Unnumbered } from './messages.ts';
import {
  type Grant,
  isOpen,
  type ProducerEffect,
  type ProducerEvent,
  type ProducerTransfer,
  type SendOutcome,
} from './producer-state.ts';

export interface ProducerRules {
  readonly deadlines: Deadlines;
  readonly sendType: SendType;
}

/** What D hears when it asks for the blocks; where they come, `pulled` is what happens to the transfer. */
export function answerToPull(
  { hash, numTokens, numBlocks, isComputed }: ProducerTransfer,
  asked: MessageOf<'pull'>,
): Unnumbered<MessageOf<'pulled'>> {
  const answer = { type: 'pulled', num_tokens: numTokens, num_blocks: numBlocks } as const;
  if (asked.hash !== hash) return { ...answer, state: 'mismatch' };
  const isResized = asked.num_blocks !== numBlocks || asked.first_block >= numBlocks;
  if (isResized) return { ...answer, state: 'resized' };
  return { ...answer, state: isComputed ? 'sending' : 'computing' };
}

/** @param now in milliseconds. */
export function reduceProducer(
  transfer: ProducerTransfer,
  event: ProducerEvent,
  now: number,
  rules: ProducerRules,
): [ProducerTransfer, readonly ProducerEffect[]] {
  const draft = new Draft(transfer, now, rules);
  draft.apply(event);
  return [draft.transfer, draft.effects];
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The next state and the effects of one event, while they are being worked out. */
class Draft {
  readonly transfer: Mutable<ProducerTransfer>;
  readonly effects: ProducerEffect[] = [];
  readonly #now: number;
  readonly #rules: ProducerRules;

  constructor(transfer: ProducerTransfer, now: number, rules: ProducerRules) {
    this.transfer = { ...transfer };
    this.#now = now;
    this.#rules = rules;
  }

  apply(event: ProducerEvent): void {
    const { phase, grant, link } = this.transfer;
    switch (event.kind) {
      case 'answered':
        this.#reserved(event.answer);
        break;
      case 'reserveFailed':
        if (phase === 'reserving') this.#end('failed', true);
        break;
      case 'pulled':
        if (isOpen(this.transfer)) this.#send(event.grant);
        break;
      case 'received':
        this.#end('delivered', false);
        break;
      case 'cancelled':
        // D hears of it where it was D that said so, too: a reservation may have passed its message on the way.
        this.#end('cancelled', true);
        break;
      case 'peerGone':
        this.#end('failed', false);
        break;
      case 'peerRestarted':
        if (phase === 'reserved' || phase === 'sending') this.#end('failed', false);
        break;
      case 'linked':
        // Another pull may have come meanwhile, or the end.
        if (phase === 'sending' && link === null && grant?.ticket === event.ticket) this.#linked(event.link);
        break;
      case 'linkDown':
        if (phase === 'sending' && link === event.link) this.#relink();
        break;
      case 'sent':
        this.transfer.lastActivity = this.#now;
        break;
      case 'computed':
        this.#computed();
        break;
      case 'answerWanted':
        this.#computed();
        this.transfer.answerWantedAt = this.#now;
        if (this.transfer.mayAnswer) this.#answer();
        break;
      case 'evicted':
        this.#end('expired', true);
        break;
      case 'shutDown':
        this.#end('cancelled', false);
        break;
      case 'sendClosed':
        if (phase === 'closing') this.#closed();
        break;
      case 'tick':
        this.#tick();
        break;
    }
  }

  #reserved(answer: Answer): void {
    const { transfer } = this;
    if (transfer.phase !== 'reserving') {
      // It has ended meanwhile, or D has pulled and granted nothing before: what it grants now has no use.
      if (answer.type === 'granted') this.effects.push({ kind: 'tellCancel' });
      return;
    }
    transfer.lastActivity = this.#now;
    if (answer.type === 'granted') {
      const grant = { ticket: BigInt(`0x${answer.ticket}`), firstBlock: 0 };
      transfer.phase = 'reserved';
      transfer.grant = grant;
      if (this.#rules.sendType === 'PUT_ASYNC' || transfer.isComputed) this.#send(grant);
    } else if (answer.type === 'full') {
      transfer.phase = 'holding';
      this.#allowAnswer();
    } else {
      this.#end('failed', true);
    }
  }

  #send(grant: Grant): void {
    const { transfer } = this;
    transfer.phase = 'sending';
    transfer.grant = grant;
    transfer.hasRelinked = false;
    transfer.lastActivity = this.#now;
    this.#connect(grant);
  }

  #connect({ ticket }: Grant): void {
    this.transfer.link = null;
    this.effects.push({ kind: 'connect', ticket });
  }

  #linked(link: number | null): void {
    const { grant } = this.transfer;
    if (link === null || grant === null) {
      this.#end('failed', true);
      return;
    }
    this.transfer.link = link;
    this.effects.push({ kind: 'send', link, grant });
  }

  /** The link is made anew once, in case that only the connection has died. */
  #relink(): void {
    const { grant, hasRelinked } = this.transfer;
    if (hasRelinked || grant === null) {
      this.#end('failed', true);
      return;
    }
    this.transfer.hasRelinked = true;
    this.#connect(grant);
  }

  #computed(): void {
    const { transfer } = this;
    if (transfer.isComputed) return;
    transfer.isComputed = true;
    transfer.lastActivity = this.#now;
    if (transfer.phase === 'reserved' && transfer.grant !== null) this.#send(transfer.grant);
  }

  /** D has the blocks, or will not have them now. */
  #allowAnswer(): void {
    this.transfer.mayAnswer = true;
    if (this.transfer.answerWantedAt !== null) this.#answer();
  }

  #answer(): void {
    this.transfer.answerWantedAt = null;
    this.effects.push({ kind: 'answer' });
  }

  /** @param tells whether D has to hear of it. */
  #end(outcome: SendOutcome, tells: boolean): void {
    if (!isOpen(this.transfer)) return;
    this.transfer.phase = 'closing';
    if (tells) this.effects.push({ kind: 'tellCancel' });
    this.effects.push({ kind: 'end', outcome });
    this.#allowAnswer();
    this.effects.push({ kind: 'closeSend' });
  }

  #closed(): void {
    this.transfer.phase = 'closed';
    this.effects.push({ kind: 'release' });
  }

  #tick(): void {
    const { phase, isComputed, lastActivity, answerWantedAt } = this.transfer;
    const { hold, put } = this.#rules.deadlines;
    if (answerWantedAt !== null && this.#now - answerWantedAt >= put) this.#answer();
    const isLate = isComputed && this.#now - lastActivity >= hold;
    if (isLate) this.#end(phase === 'holding' ? 'expired' : 'failed', true);
  }
}
