/** So many messages are remembered at most: those before them may be told again. */
const MOST_REMEMBERED = 100;

/** @returns a function that passes on each message once, of those that several tell alike. */
export function once(tell: (message: string) => void): (message: string) => void {
  const told = new Set<string>();
  return (message) => {
    if (told.has(message)) return;
    if (told.size === MOST_REMEMBERED) told.clear();
    told.add(message);
    tell(message);
  };
}
