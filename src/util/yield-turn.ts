// Long work on the main thread is cut into parts, and shares the turns of the event loop: those who work long take
// them in order, and events are handled in between.

/** Milliseconds of long work in one turn of the event loop, of all who have some together. */
const MAX_TURN_MS = 5;

/** By performance.now(); null in a turn without long work so far. */
let turnBegan: number | null = null;
/** In the order in which they came. */
const waiting: (() => void)[] = [];

/** To be awaited between two parts of long work: resolves in a later turn where this one has been long enough. */
export async function yieldTurn(): Promise<void> {
  turnBegan ??= beginTurn();
  if (performance.now() - turnBegan < MAX_TURN_MS) return;
  await new Promise<void>((resolve) => waiting.push(resolve));
}

function beginTurn(): number {
  setImmediate(endTurn);
  return performance.now();
}

/** Runs in the last phase of the turn: the next one belongs to whoever has waited longest. */
function endTurn(): void {
  const next = waiting.shift();
  turnBegan = next === undefined ? null : beginTurn();
  next?.();
}
