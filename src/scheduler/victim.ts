// Which running requests are preempted, for blocks or for a slot: those of the caller with the most slots, and of its
// requests (groups of samples) of the one with the most, so that what one of them makes of its many slots does not cost
// the others theirs.

import type { Request } from './request.ts';
import type { SlotCounts } from './slot-counts.ts';

/**
 * Who gives up its blocks when running requests are short of them: the least urgent, of these the latest of the heaviest group.
 * @param running not empty.
 */
export function chooseVictim(running: readonly Request[], slots: SlotCounts): Request {
  return running.reduce((a, b) => {
    const order = a.priority - b.priority || compareHolders(a, b, slots) || a.arrival - b.arrival;
    return order > 0 ? a : b;
  });
}

/**
 * Who makes room for `newcomer`, a waiting request whose group has no slot: at least one. A group gives to another one of
 * its caller while it has two slots or more, a caller to another caller while it has at least two more: so nobody is left
 * with less than the newcomer then has, and equal shares never preempt each other. Within a group, whoever was preempted
 * least often goes first, then whoever loses the fewest computed tokens.
 * @param areEnough tells whether these leave enough blocks for it.
 * @returns null where the shares that others have above the newcomer's do not suffice.
 */
export function chooseVictimsFor(
  newcomer: Request,
  running: readonly Request[],
  slots: SlotCounts,
  areEnough: (victims: readonly Request[]) => boolean,
): Request[] | null {
  const left = slots.copy();
  const victims: Request[] = [];
  do {
    const candidates = running.filter((one) => !victims.includes(one) && mayGiveTo(newcomer, one, left));
    if (candidates.length === 0) return null;
    const victim = candidates.reduce((a, b) => (compareLoss(a, b, left) > 0 ? a : b));
    victims.push(victim);
    left.giveBack(victim);
  } while (!areEnough(victims));
  return victims;
}

function mayGiveTo(newcomer: Request, { priority, caller, group }: Request, slots: SlotCounts): boolean {
  if (priority < newcomer.priority) return false;
  if (caller === newcomer.caller) return slots.ofGroup(group) >= 2;
  return slots.ofCaller(caller) >= slots.ofCaller(newcomer.caller) + 2;
}

/** Positive where `a` is the one to be preempted. */
function compareLoss(a: Request, b: Request, slots: SlotCounts): number {
  return (
    compareHolders(a, b, slots) ||
    b.numPreemptions - a.numPreemptions ||
    b.numComputedTokens - a.numComputedTokens ||
    a.arrival - b.arrival
  );
}

/** Positive where `a` is of the heavier caller, or of one caller the heavier group. */
function compareHolders(a: Request, b: Request, slots: SlotCounts): number {
  return (
    slots.ofCaller(a.caller) - slots.ofCaller(b.caller) || slots.ofGroup(a.group) - slots.ofGroup(b.group)
  );
}
