// A transfer at the producer (P), from the arrival of its request until nothing reads its blocks: its state, and a pure state
// machine. Whatever goes wrong, P gives up the blocks, and D computes the prompt itself.

import type { SendType } from '../../config/kv-transfer-config.ts';
import type { SendOutcome } from '../connector.ts';
import type { Deadlines } from './deadlines.ts';
import type { Answer, MessageOf, Unnumbered } from './messages.ts';
import type { PeerEvent } from './transfers.ts';

/**
 * holding: the blocks wait for a pull. reserving: D is being asked for room. reserved: D has room, the prompt is not
 * computed yet (PUT). sending: blocks leave as they are computed, or have left. closing: native threads may still read
 * the blocks. closed: they can be reused.
 */
type ProducerPhase = 'holding' | 'reserving' | 'reserved' | 'sending' | 'closing' | 'closed';

/** Where D lets P write, from which block of the transfer on, of the size that messages with D mean. */
interface Grant {
  readonly ticket: bigint;
  readonly firstBlock: number;
}

export interface SendDescription {
  /** Names it to the engine thread and to the native threads. */
  readonly transferId: number;
  readonly key: string;
  /** Control address of D. */
  readonly address: string;
  readonly numTokens: number;
  readonly numBlocks: number;
  readonly hash: string;
}

export interface ProducerTransfer extends SendDescription {
  readonly phase: ProducerPhase;
  readonly grant: Grant | null;
  /** The data link that the blocks leave by; null until there is one. */
  readonly link: number | null;
  /** Whether the link was made anew for this grant already. */
  readonly hasRelinked: boolean;
  /** All of the prompt is computed. */
  readonly isComputed: boolean;
  /** Whether the request can be answered when its prompt is computed: with PUT not before D has the blocks. */
  readonly mayAnswer: boolean;
  /** Since when the request waits with its answer, in milliseconds; null where it does not. */
  readonly answerWantedAt: number | null;
  /** When something last happened to it, in milliseconds. */
  readonly lastActivity: number;
}

export type ProducerEvent = Readonly<
  | PeerEvent
  /** The answer to the reservation; null where none came. */
  | { kind: 'answered'; answer: Answer | null }
  /** D wants the blocks. */
  | { kind: 'pulled'; grant: Grant }
  /** D has all blocks. */
  | { kind: 'received' }
  /** The request, the proxy or D has given it up. */
  | { kind: 'cancelled' }
  /** The answer to `connect`; null where no link came about. */
  | { kind: 'linked'; ticket: bigint; link: number | null }
  | { kind: 'linkDown'; link: number }
  /** All blocks have left. */
  | { kind: 'sent' }
  | { kind: 'computed' }
  /** The prompt is computed, and its request is to be answered. */
  | { kind: 'answerWanted' }
  /** Another transfer needs its memory. */
  | { kind: 'evicted' }
  /** This instance is closing. */
  | { kind: 'shutDown' }
  /** The answer to `closeSend`. */
  | { kind: 'sendClosed' }
  /** Time has passed. */
  | { kind: 'tick' }
>;

export type ProducerEffect = Readonly<
  /** Make the data link to D, or find the one there is. */
  | { kind: 'connect'; ticket: bigint }
  | { kind: 'send'; link: number; grant: Grant }
  | { kind: 'closeSend' }
  | { kind: 'tellCancel' }
  /** The answer to `answerWanted`. */
  | { kind: 'answer' }
  /** The key is free for another transfer. */
  | { kind: 'end'; outcome: SendOutcome }
  /** The blocks can be reused. */
  | { kind: 'release' }
>;

interface ProducerRules {
  readonly deadlines: Deadlines;
  readonly sendType: SendType;
}

/** A transfer that waits for a pull (GET), or for the answer to its reservation. */
export function newSend(about: SendDescription, sendType: SendType, now: number): ProducerTransfer {
  const phase = sendType === 'GET' ? 'holding' : 'reserving';
  const blank = { grant: null, link: null, hasRelinked: false, isComputed: false, answerWantedAt: null };
  return { ...about, ...blank, phase, mayAnswer: sendType !== 'PUT', lastActivity: now };
}

/** Whether the blocks are for D still. */
export function isOpen({ phase }: ProducerTransfer): boolean {
  return phase !== 'closing' && phase !== 'closed';
}

/**
 * The answer to D's pull; `sending` and `computing` promise the blocks, and the event `pulled` follows.
 * @param numBlocks of the transfer, of the size that messages with D mean
 */
export function answerToPull(
  { hash, numTokens, isComputed }: ProducerTransfer,
  asked: MessageOf<'pull'>,
  numBlocks: number,
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

  #reserved(answer: Answer | null): void {
    const { transfer } = this;
    if (transfer.phase !== 'reserving') {
      // The transfer has ended, or D has pulled: a grant that comes now is of no use.
      if (answer?.type === 'granted') this.effects.push({ kind: 'tellCancel' });
      return;
    }
    transfer.lastActivity = this.#now;
    if (answer?.type === 'granted') {
      const grant = { ticket: BigInt(`0x${answer.ticket}`), firstBlock: 0 };
      transfer.phase = 'reserved';
      transfer.grant = grant;
      if (this.#rules.sendType === 'PUT_ASYNC' || transfer.isComputed) this.#send(grant);
    } else if (answer?.type === 'full') {
      transfer.phase = 'holding';
      this.#allowAnswer();
    } else if (answer?.type === 'refused' && answer.code === 'unasked') {
      // D was told before P that nobody wants it any more.
      this.#end('cancelled', false);
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

  /** The link is made anew once, in case only the connection has died. */
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
