// Looks into events of a stream without making a text of each.

import { parseJson } from '../../util/parse-json.ts';

const DATA = '\ndata: ';

export function startsWith(event: Buffer, prefix: Buffer): boolean {
  return event.length >= prefix.length && prefix.compare(event, 0, prefix.length) === 0;
}

/** The JSON of an event that has a line with its name before it; undefined where there is none. */
export function namedEventData(event: Buffer): unknown {
  const text = event.toString('utf8');
  const start = text.indexOf(DATA);
  return start < 0 ? undefined : parseJson(text.slice(start + DATA.length));
}
